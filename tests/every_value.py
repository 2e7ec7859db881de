"""A file in LongMemEval's format with every kind of value that files of that format have: ids, contents, right answers.

Each value stands in a place where code may hold it for another type, for markup or for the end of something.
"""

import json
from pathlib import Path
from typing import Any

from longmemeval.benchmarks.longmemeval.loader import QUESTION_TYPES

LONG = "very long " * 2_000
TEXTS = {
    "markup": "</script><script>alert('x')</script><!-- ]]> &amp; <img src=x onerror=alert(1)>",
    "latex": r"100% of $5 & #1 in {a_b}^2 ~ \textbf{x} \\ \end{tabular}",
    "markdown": "| a | **b** | `c` [d](http://e.example) \n# f\n---\n",
    "templates": "{question} {0} %s {{x}} {% raw %} {{ 7*7 }} $HOME `id`",
    "nul": "before\0after \x01\x1b[31mred\x7f",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 e\u0301 \U0001d518 \U0010ffff",
    "rtl": "\u202eقطة שלום\u202c \u2066x\u2069",
    "lines": "one\r\ntwo\nthree\rfour\u2028five\u2029six\x85seven",
    "spreadsheet": '=HYPERLINK("http://e.example","x")\t,;"\'',
    "number": "0",
    "null": "null",
    "truth": "True",
    "nan": "NaN",
    "blank": " \t\n",
    "empty": "",
    "long": LONG,
}
"""Texts of turns."""

ANSWERS: dict[str, Any] = {
    "zero": 0,
    "negative": -7,
    "float": 3.5,
    "large": 1000000000000000.5,
    "007": 12345678901234567890123,
    "True": True,
    "False": False,
    "list": ["Green", 2, None, ["nested", {"deep": [1.5]}]],
    "object": {"colour": "green", "sizes": [1, {"b": None}]},
    "null": "null",
    "1e5": "1e5",
    "=1+1": "=1+1",
    **{f"text {name}": text for name, text in TEXTS.items() if text.strip()},
    "<img src=x onerror=alert(1)>&amp;'\"": TEXTS["markup"],
    r"#1 50% $x$ {a_b}^2 ~&": TEXTS["latex"],
    "emoji 🟢 é": "🟢",
    "שלום قطة": "ירוק",
    "a, b; c | d": "a, b; c | d",
    "-x --help": "- x",
    "q" * 200: "long id",
    "none_abs": "The history does not say.",
}
"""Right answers by question id."""

SESSIONS = (
    "1",
    "0",
    "true",
    "a\nb",
    "</script><b>",
    r"..\x/../y",
    "nul\0id",
    "x:y:0",
    r"50% $a_b$ & {c}",
    "👩‍👩‍👧 שלום\u202e",
    " ",
    "=1+1",
    "s" * 500,
)
"""Ids of sessions, which are no file names; each holds some of `TEXTS`."""


def every_value() -> list[dict[str, Any]]:
    """The records: a question for each of `ANSWERS`, about a history with all ids and texts."""
    texts = list(TEXTS.values())
    return [
        {
            "question_id": question_id,
            "question_type": QUESTION_TYPES[number % len(QUESTION_TYPES)],
            "question": texts[number % 12] + " What colour is my bike?",
            "answer": answer,
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_dates": [f"2023/05/{day + 1:02} (Mon) 02:21" for day, _ in enumerate(SESSIONS)],
            "haystack_session_ids": list(SESSIONS),
            "haystack_sessions": [
                _session(texts[place % len(texts) :: len(SESSIONS)], place == number % len(SESSIONS))
                for place, _ in enumerate(SESSIONS)
            ],
            "answer_session_ids": [] if "_abs" in question_id else [SESSIONS[number % len(SESSIONS)]],
        }
        for number, (question_id, answer) in enumerate(ANSWERS.items())
    ]


def _session(texts: list[str], is_evidence: bool) -> list[dict[str, Any]]:
    turns = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
    asserted = {"role": "user", "content": "My bike is green.", "has_answer": is_evidence or None}
    return [*turns, asserted, {"role": "assistant", "content": "Fine.", "has_answer": False}]


def write_every_value(path: Path) -> Path:
    """Write the records, astral characters as pairs of surrogates, as Python's `json` does."""
    path.write_text(json.dumps(every_value()))
    return path
