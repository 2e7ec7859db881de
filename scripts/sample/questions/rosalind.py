"""What is asked about Rosalind; chats are named as in `personas/rosalind.txt`."""

from sample.question import Question, in_order

QUESTIONS = (
    Question(
        "rosalind-birthday",
        "single-session-user",
        "What did I give my grandson for his birthday?",
        "A child's microscope",
        ("microscope",),
        "2024/10/03 15:45",
        near=("neighbour-gift",),
    ),
    Question(
        "rosalind-granddaughter",
        "single-session-user",
        "What birthday present did my granddaughter get from me?",
        "The user mentioned giving her grandson Rowan a child's microscope, but never mentioned a granddaughter.",
        ("microscope",),
        "2024/09/30 11:20",
        near=("neighbour-gift",),
        abstention=True,
    ),
    Question(
        "rosalind-life-list",
        "multi-session",
        "By how many species has my life list grown since the start of August?",
        5,
        ("hoopoe", "wryneck", "sandpipers"),
        "2024/10/16 08:25",
        near=("derek-ticks",),
    ),
    Question(
        "rosalind-meeting-place",
        "knowledge-update",
        "Where does my book group meet these days?",
        "In the back room of the Harbour Lights café",
        ("club-library", "club-cafe"),
        "2024/10/18 10:55",
        near=("summer-book",),
    ),
    Question(
        "rosalind-order",
        "temporal-reasoning",
        "Put these in order, earliest first: the quilt show, my eye operation, my return from the Isles of Scilly.",
        in_order("the quilt show", "the eye operation", "the return from the Isles of Scilly"),
        ("quilt-show", "cataract", "scilly"),
        "2024/10/14 19:05",
    ),
    Question(
        "rosalind-october-book",
        "single-session-assistant",
        "Which book did you recommend for our October meeting?",
        "The Summer Book",
        ("summer-book",),
        "2024/10/11 14:30",
        placed={"budget-envelope": "2024/09/17 19:44", "ohms-law": "2024/09/17 11:08"},
        times_in_order=False,
    ),
    Question(
        "rosalind-spring",
        "single-session-preference",
        "Where might I go for a few days next spring?",
        "The user would prefer places reachable by train, with a small hotel, a ground-floor room for her bad knees, "
        "and gardens to visit at a gentle pace. She may not prefer coach tours, cruises or steep walks.",
        ("travel-taste",),
        "2024/10/07 16:00",
        near=("scilly",),
    ),
)
