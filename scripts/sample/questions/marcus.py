"""What is asked about Marcus; chats are named as in `personas/marcus.txt`."""

from sample.question import Question, days_between

QUESTIONS = (
    Question(
        "marcus-workspace",
        "single-session-user",
        "What kind of artist uses the other half of my studio?",
        "A ceramicist",
        ("studio",),
        "2024/03/25 11:35",
        near=("rehearsal-room",),
    ),
    Question(
        "marcus-prints",
        "multi-session",
        "How much have I earned with prints this year?",
        "$655",
        ("cafe-print", "dentist-print", "online-print"),
        "2024/04/03 09:15",
        near=("wedding",),
    ),
    Question(
        "marcus-last-stop",
        "single-session-assistant",
        "You once planned an evening photo walk for me along the water. Where was it supposed to finish?",
        "At the Atwater footbridge",
        ("blue-hour",),
        "2024/04/08 18:30",
    ),
    Question(
        "marcus-bikes",
        "knowledge-update",
        "How many bikes do I own at the moment?",
        4,
        ("bikes-three", "bikes-four"),
        "2024/04/11 20:20",
        near=("hooks",),
    ),
    Question(
        "marcus-repair",
        "temporal-reasoning",
        "How many days did it take to get my medium-format camera back from repair?",
        days_between,
        ("repair-drop", "repair-back"),
        "2024/04/05 13:40",
        near=("kit",),
    ),
    Question(
        "marcus-quebec",
        "single-session-preference",
        "I'm off to Quebec City for a weekend to take some pictures for myself. What should I bring?",
        "The user would prefer to carry nothing but one old rangefinder with a 35 mm lens and some Tri-X. He may not "
        "prefer zooms, flash or a heavy bag.",
        ("kit",),
        "2024/03/28 22:10",
        near=("repair-drop",),
    ),
    Question(
        "marcus-exhibition",
        "single-session-user",
        "What was my first exhibition called?",
        "Low Water",
        ("exhibition",),
        "2024/04/02 19:40",
        near=("luc-album",),
    ),
    Question(
        "marcus-rent",
        "knowledge-update",
        "How much is the rent for my studio?",
        "$840 a month",
        ("rent-before", "rent-after"),
        "2024/04/09 12:10",
        near=(
            "corner-room",
            "studio",
        ),
    ),
)
