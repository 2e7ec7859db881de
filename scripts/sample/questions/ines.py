"""What is asked about Ines; chats are named as in `personas/ines.txt`."""

from sample.question import Question, days_between

QUESTIONS = (
    Question(
        "ines-cello-price",
        "single-session-user",
        "How much do I pay for a cello lesson?",
        "£38",
        ("cello",),
        "2024/04/06 10:20",
        near=(
            "hall",
            "bea-piano",
        ),
    ),
    Question(
        "ines-violin-price",
        "single-session-user",
        "How much do I pay my violin teacher per lesson?",
        "The user mentioned paying £38 for a cello lesson, but never mentioned having violin lessons.",
        ("cello",),
        "2024/03/30 18:05",
        near=("bea-piano",),
        abstention=True,
    ),
    Question(
        "ines-tradespeople",
        "multi-session",
        "How much did the electrician, the plumber and the plasterer quote for our kitchen altogether?",
        "£1,575",
        ("electrician", "plumber", "plasterer"),
        "2024/04/10 20:15",
        near=("roofer-neighbour", "worktop-quartz"),
    ),
    Question(
        "ines-counters",
        "knowledge-update",
        "What will our kitchen worktops be made of?",
        "Pale quartz",
        ("worktop-oak", "worktop-quartz"),
        "2024/04/12 09:40",
        near=("plumber",),
        placed={"odd-length": "2024/02/23 18:12"},
    ),
    Question(
        "ines-pickle",
        "temporal-reasoning",
        "How many days had we had our cat when I took her to the vet for the first time?",
        days_between,
        ("adopt", "vet"),
        "2024/04/02 21:10",
        near=("puppy-friend",),
    ),
    Question(
        "ines-evening",
        "single-session-preference",
        "I have a free evening in London next week. What would I enjoy?",
        "The user would prefer suggestions of chamber music or similar unamplified performances in small, intimate "
        "venues such as churches or recital halls, ending early. They may not prefer arena shows, big amplified gigs "
        "or anything very loud.",
        ("concert",),
        "2024/03/29 12:50",
    ),
    Question(
        "ines-honeymoon",
        "single-session-user",
        "Where did we go on our honeymoon?",
        "Ljubljana",
        ("honeymoon",),
        "2024/04/03 22:05",
        near=("oonagh-honeymoon",),
    ),
    Question(
        "ines-home-days",
        "knowledge-update",
        "How many days a week do I work from home?",
        "Three days",
        ("home-two", "home-three"),
        "2024/04/05 17:25",
        near=(
            "evenings",
            "bike-commute",
        ),
    ),
)
