"""What is asked about Hanna; chats are named as in `personas/hanna.txt`."""

from sample.question import Question, weeks_ago

QUESTIONS = (
    Question(
        "hanna-dog-age",
        "single-session-user",
        "How old is my dog?",
        "Seven",
        ("frida",),
        "2024/07/14 09:30",
        near=("labrador",),
    ),
    Question(
        "hanna-thesis",
        "knowledge-update",
        "When is my dissertation due?",
        "15 November",
        ("deadline-september", "deadline-november"),
        "2024/08/06 14:05",
        near=(
            "summer-party",
            "seminar-slides",
        ),
    ),
    Question(
        "hanna-jumper",
        "temporal-reasoning",
        "How many weeks ago did I finish knitting for my brother?",
        weeks_ago,
        ("sweater",),
        "2024/08/04 20:45",
        near=("mittens",),
        placed={"blank-turn": "2024/07/20 15:26"},
    ),
    Question(
        "hanna-package",
        "single-session-assistant",
        "Which package did you recommend for my counts with so many zeros?",
        "glmmTMB",
        ("glmm",),
        "2024/07/29 10:25",
    ),
    Question(
        "hanna-kilometres",
        "multi-session",
        "How many kilometres have I paddled in my kayak this season?",
        "45 km",
        ("askoy", "hardanger", "herdla"),
        "2024/08/09 18:15",
        near=("cancelled-trip",),
    ),
    Question(
        "hanna-hats",
        "multi-session",
        "How many hats have I knitted for my nieces?",
        "The user mentioned knitting mittens for her nieces and a jumper for her brother, but never mentioned hats.",
        ("mittens", "sweater"),
        "2024/07/18 21:35",
        abstention=True,
    ),
    Question(
        "hanna-exchange",
        "single-session-user",
        "Where did I do my exchange semester?",
        "Hobart",
        ("exchange",),
        "2024/08/05 19:35",
        near=("ingrid-exchange",),
    ),
)
