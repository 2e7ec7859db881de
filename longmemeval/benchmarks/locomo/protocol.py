"""The way LoCoMo's authors ask a model their questions: the text added to questions of two of the five categories.

The rules are those of `task_eval/gpt_utils.py` in the official repository; the words are this project's, or come from a
file (`texts.py`). A temporal question asks for an approximate date. An adversarial question offers two answers in
random order: that the conversation does not mention it, and the trap. The official code draws the order without a seed;
here it follows from seed and question id, independently of other questions. `f1.py` reads the answer.

The category of a question is a label, and the protocol reveals it to the model: a score under it does not show
whether a system notices by itself that something was never mentioned.
"""

import random
from collections.abc import Iterable

from msgspec.structs import replace

from longmemeval.benchmarks.locomo.texts import OURS, Wording
from longmemeval.dataset import Dataset
from longmemeval.records import Question


def official_questions(
    dataset: Dataset, questions: Iterable[Question], seed: int, wording: Wording | None = None
) -> list[Question]:
    """Return the questions with the additions of the official protocol in `appended` and `options`; their texts stay.

    Args:
        dataset: data of LoCoMo's format. Only the category and the trap of a question's gold are read.
        questions: questions of `dataset`.
        seed: decides the order of the two options of each adversarial question.
        wording: wording of a file; None: our own.
    """
    return [_official(dataset, question, seed, wording or OURS) for question in questions]


def _official(dataset: Dataset, question: Question, seed: int, wording: Wording) -> Question:
    gold = dataset.gold(question.question_id)
    if gold.trap is not None:
        options = _shuffled(wording.not_mentioned, gold.trap, f"{seed}:{question.question_id}")
        return replace(question, appended=wording.options.format(*options), options=options)
    return replace(question, appended=wording.date_hint if gold.question_type == "temporal" else "", options=())


def _shuffled(first: str, second: str, seed: str) -> tuple[str, str]:
    # Seeding with a text hashes it in the same way in every process.
    return (first, second) if random.Random(seed).random() < 0.5 else (second, first)
