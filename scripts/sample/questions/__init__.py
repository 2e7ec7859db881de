"""The questions, one module per persona."""

from sample.question import Question
from sample.questions import dilan, hanna, ines, kwame, marcus, nora, priya, rosalind, seun, tomasz

QUESTIONS: dict[str, tuple[Question, ...]] = {
    "ines": ines.QUESTIONS,
    "tomasz": tomasz.QUESTIONS,
    "priya": priya.QUESTIONS,
    "marcus": marcus.QUESTIONS,
    "hanna": hanna.QUESTIONS,
    "seun": seun.QUESTIONS,
    "rosalind": rosalind.QUESTIONS,
    "dilan": dilan.QUESTIONS,
    "nora": nora.QUESTIONS,
    "kwame": kwame.QUESTIONS,
}
"""The questions by persona, in the order of the file."""
