"""What is asked about Priya; chats are named as in `personas/priya.txt`."""

from sample.question import Question, which_first

QUESTIONS = (
    Question(
        "priya-dinner",
        "single-session-preference",
        "What should I cook for dinner on Thursday?",
        "The user would prefer quick vegetarian dishes without mushrooms, ideally made in her electric pressure cooker "
        "within half an hour and mild enough for her twin sons. She may not prefer meat, fish or mushrooms.",
        ("dinners",),
        "2024/10/06 13:15",
    ),
    Question(
        "priya-pots",
        "multi-session",
        "How many pots of vegetables do I have on my balcony altogether?",
        6,
        ("tomatoes", "peppers", "beans"),
        "2024/10/08 17:40",
        near=("school-beds",),
    ),
    Question(
        "priya-club-day",
        "knowledge-update",
        "On which day does my chemistry club meet?",
        "Thursdays",
        ("club-tuesday", "club-thursday"),
        "2024/10/15 07:50",
        near=(
            "robots",
            "drama-colleague",
        ),
    ),
    Question(
        "priya-drama-day",
        "knowledge-update",
        "On which day does the drama club I lead meet?",
        "The user mentioned leading the chemistry club, which moved from Tuesdays to Thursdays, and a colleague who "
        "directs the school play, but never mentioned leading a drama club.",
        ("club-tuesday", "club-thursday"),
        "2024/10/18 16:20",
        near=("drama-colleague",),
        abstention=True,
    ),
    Question(
        "priya-masters",
        "single-session-user",
        "Where did I do my graduate studies?",
        "Purdue",
        ("reference-letter",),
        "2024/10/20 20:55",
        near=("cousin-degree",),
    ),
    Question(
        "priya-twins-firsts",
        "temporal-reasoning",
        "What did the boys do first: begin learning to swim, or see the dentist?",
        which_first("They began learning to swim", "They saw the dentist"),
        ("swim", "dentist"),
        "2024/10/17 12:05",
        placed={"assistant-first": "2024/09/08 09:47"},
    ),
    Question(
        "priya-chickpeas",
        "single-session-assistant",
        "For how long did you say I should soak dried chickpeas?",
        "Twelve hours",
        ("chickpeas",),
        "2024/10/13 09:05",
    ),
)
