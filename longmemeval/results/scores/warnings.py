"""Warnings that make a score worth less than it looks, shown with the number wherever it is printed."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count, islice, takewhile
from math import fsum
from typing import Literal

from msgspec import Struct

from longmemeval.benchmarks.catalogue import catalogue, data_file
from longmemeval.benchmarks.registry import are_foreign
from longmemeval.core.text.figures import count_of, listed
from longmemeval.core.text.words import is_foreign
from longmemeval.dataset import Dataset
from longmemeval.judges.definition import compares_words, rules_of, set_names
from longmemeval.judges.people import is_imported, is_person
from longmemeval.judges.plants.judged import has_judged
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import first_of, grading_of
from longmemeval.llm.providers import model_families
from longmemeval.measures.metrics import credit
from longmemeval.records import Answer
from longmemeval.results.graded.judge_checks import Repeatability
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.settings import Folders
from longmemeval.statistics.power import can_show_nothing, independent_units

WarningCode = Literal[
    "history-fits",
    "few-questions",
    "unchecked-judge",
    "not-english",
    "foreign-history",
    "same-family",
    "unstable-recall",
    "unequal-tokens",
]
WARNED = "!"
"""The mark beside a score that has a warning which not all compared memories share."""
IN_GENERAL: dict[WarningCode, str] = {
    "history-fits": "The limits let the whole history through for some questions, which do not test the memory.",
    "few-questions": "There are too few questions for a significant difference.",
    "unchecked-judge": "The judge's error rate has not been measured on this benchmark.",
    "not-english": "The judge compares English words, and some texts are not in English.",
    "foreign-history": "Part of the history is not in English, which word search and rules are made for.",
    "same-family": "Judge and answering model are of the same family; models tend to favour their own.",
    "unstable-recall": "Repeating the same query changed what the memory recalled.",
    "unequal-tokens": "Prompts differ in length, which alone can change scores.",
}
"""Each warning as a sentence without the figures of a run."""
OF_QUESTIONS: frozenset[WarningCode] = frozenset({"history-fits", "few-questions"})
"""Warnings that depend on the choice of questions."""
_MOST_NAMED = 4
_MOST_MESSAGES = 200
_LIMITS = {
    "top_k": "top_k covers all its messages",
    "last_messages": "last_messages covers all its messages",
    "budget": "the budget covers all its tokens",
    "recall": "all of it was retrieved",
}


class ScoreWarning(Struct, frozen=True):
    """One warning."""

    code: WarningCode
    text: str
    """The warning in one or two sentences."""
    share: float | None = None
    """Share of the questions it is about, where that is known."""


def warned_lines(runs: Sequence[tuple[str, Sequence[ScoreWarning]]]) -> list[str]:
    """Return a sentence for each kind of warning, with the runs it is about; none without warnings."""
    about: dict[WarningCode, list[str]] = {}
    for name, warnings in runs:
        for code in dict.fromkeys(warning.code for warning in warnings):
            about.setdefault(code, []).append(name)
    return [
        f"{WARNED} {'All runs' if 1 < len(names) == len(runs) else listed(names, _MOST_NAMED)}: {IN_GENERAL[code]}"
        for code, names in about.items()
    ]


def question_warnings(asked: RunQuestions, answers: Collection[Answer], *, control: bool) -> Iterator[ScoreWarning]:
    """Yield the warnings that follow from which questions were put.

    Args:
        answers: the answers to them.
        control: True if the run is a control, which may well see all of the history.
    """
    if not control and (text := history_fits(answers)):
        yield ScoreWarning("history-fits", text, sum(bool(one.loose_limits) for one in answers) / len(answers))
    yield from asked.once("number warnings", lambda: tuple(number_warnings(asked.units, asked.question_type)))


def number_warnings(units: Mapping[str, str], question_type: Callable[[str], str]) -> Iterator[ScoreWarning]:
    """Yield warnings if the questions, or those of a type, are too few to tell any two runs apart.

    Args:
        units: question id to the haystack, or other group, that is resampled whole.
        question_type: returns the type of a question id.
    """
    haystacks = list(units.values())
    if can_show_nothing(haystacks):
        number = independent_units(haystacks)
        what = "haystack" if number < len(haystacks) else "question"
        text = (
            f"{count_of(number, what)} {'is' if number == 1 else 'are'} too few for any difference to be significant."
        )
        yield ScoreWarning("few-questions", text)
        return
    by_type: dict[str, list[str]] = {}
    for question_id, unit in units.items():
        by_type.setdefault(question_type(question_id), []).append(unit)
    few = [f"{name} ({len(group):,})" for name, group in sorted(by_type.items()) if can_show_nothing(group)]
    if few:
        yield ScoreWarning("few-questions", f"Too few questions for a significant difference in: {', '.join(few)}.")


def cutoff_warnings(loose: Mapping[int, int], questions: int, level: str) -> Iterator[ScoreWarning]:
    """Yield a warning if a measure looks at the whole history.

    Args:
        loose: cutoff to the number of questions whose history has no more items.
        questions: number of all questions.
        level: what is ranked, `session` or `turn`.
    """
    if loose:
        shares = ", ".join(f"@{cutoff}: {_share(count, questions)}" for cutoff, count in sorted(loose.items()))
        yield ScoreWarning(
            "history-fits",
            f"Some cutoffs reach the whole history, counted in {level}s ({shares} of the questions); recall there is "
            "trivially high.",
        )


def judge_warnings(
    judge: JudgeIdentity, asked: RunQuestions, model: str, *, checked: bool, refused: Sequence[str] = ()
) -> Iterator[ScoreWarning]:
    """Yield the warnings that follow from the judge.

    Args:
        model: the answering model.
        checked: True if there is a check of the judge on the benchmark.
        refused: reasons why checks of it are not used.
    """
    if refused:
        again = f"Delete or restore it, or rerun `{check_command(judge, asked)}`."
        yield ScoreWarning("unchecked-judge", f"A stored judge check was ignored: {refused[0]}. {again}")
    elif not checked:
        yield ScoreWarning("unchecked-judge", _unchecked(judge, asked))
    if shared := sorted(model_families(model) & model_families(judge.model)):
        yield ScoreWarning(
            "same-family",
            f"Judge ({judge.model}) and answering model ({model}) are both {' and '.join(shared)} models; judges tend "
            "to favour their own family.",
        )


def language_warnings(judge: JudgeIdentity, asked: RunQuestions, answers: Collection[Answer]) -> Iterator[ScoreWarning]:
    """Yield warnings if the history is not English, and if the judge compares English words but the texts are not.

    Args:
        answers: the answers to the questions.
    """
    yield from asked.once("history warnings", lambda: tuple(history_warnings(asked.dataset)))
    if not compares_words(judge):
        return
    foreign = asked.foreign | {answer.question_id for answer in answers if is_foreign(answer.hypothesis)}
    if are_foreign(foreign, len(asked.questions)):
        yield ScoreWarning(
            "not-english",
            f"{len(foreign):,} of {count_of(len(asked.questions), 'question')} or their answers are not in English. "
            f"{judge.model} compares English words and marks correct answers in other languages wrong. Grade with a "
            "chat model: `longmemeval evaluate RUN --judge MODEL`.",
        )


def history_warnings(dataset: Dataset) -> Iterator[ScoreWarning]:
    """Yield a warning if messages of the first haystack are not in English, judged by at most `_MOST_MESSAGES`."""
    sessions = next((haystack.sessions for haystack in dataset.haystacks()), ())
    texts = list(islice((turn.content for session in sessions for turn in session.turns), _MOST_MESSAGES))
    foreign = [text for text in texts if is_foreign(text)]
    if are_foreign(foreign, len(texts)):
        yield ScoreWarning(
            "foreign-history",
            f"{_share(len(foreign), len(texts))} of {count_of(len(texts), 'message')} that we looked at are not in "
            "English. Rules read only English. Word search (BM25) stems only English, and finds Chinese and Japanese "
            "by pairs of characters.",
        )


def recall_warnings(found: Repeatability | None) -> Iterator[ScoreWarning]:
    """Yield a warning if the same question gave different recalls."""
    if found and found.changed:
        yield ScoreWarning("unstable-recall", found.sentence)


def history_fits(answers: Collection[Answer]) -> str:
    """Return a sentence on the questions for which a limit of the memory left nothing out; empty if there are none."""
    loose = [answer.loose_limits for answer in answers if answer.loose_limits]
    if not loose:
        return ""
    counts = {words: sum(name in names for names in loose) for name, words in _LIMITS.items()}
    limits = ", ".join(f"{words}: {_share(count, len(answers))}" for words, count in counts.items() if count)
    return (
        f"For {_share(len(loose), len(answers))} of the questions the memory returned the whole history ({limits}); "
        "they do not test retrieval."
    )


def _unchecked(judge: JudgeIdentity, asked: RunQuestions) -> str:
    unknown = f"The judge's error rate on {asked.benchmark.title} has not been measured"
    if is_imported(judge):
        return f"{unknown}: its labels were imported from a log, which cannot be checked."
    if is_person(judge):
        return f"{unknown}: its labels come from a person."
    if asked.benchmark.planting is None:
        return f"{unknown} and cannot be: the benchmark has no rules for test answers."
    if compares_words(judge) and not (asked.benchmark.planting.judged_in or has_judged(asked.dataset.path)):
        return (
            f"{unknown}: the benchmark has no human-labelled answers, and generated test answers are too easy for its "
            "rules."
        )
    return f"{unknown}. Measure it: `{check_command(judge, asked)}`."


def spec_of(judge: JudgeIdentity, asked: RunQuestions) -> str:
    """Return what `--judge` takes for a judge; empty for a set of the user's, and for imported labels."""
    prompts = judge.templates.lower()
    if rules_of(judge.model) or prompts == asked.benchmark.prompts:
        return judge.model
    return f"{prompts}@{judge.model}" if prompts in set_names() else ""


def check_command(judge: JudgeIdentity, asked: RunQuestions) -> str:
    """Return the command that checks a judge on the data of a run; for a set of the user's, with JUDGE for its file."""
    spec = spec_of(judge, asked) or "JUDGE"
    planting = asked.benchmark.planting
    elsewhere = compares_words(judge) and not has_judged(asked.dataset.path)
    data = planting.judged_in if planting and elsewhere else ""
    at = ["--api-base", judge.endpoint] if judge.endpoint and "://" in judge.endpoint else []
    return shlex.join(["longmemeval", "judge", "check", spec, "--dataset", data or _name_of(asked.dataset), *at])


def _name_of(data: Dataset) -> str:
    """Return the data's value for `--dataset`: its name if it is the catalogue's own file, else the path."""
    entry = catalogue().get(data.name)
    is_own = entry is not None and data_file(entry, Folders().data_dir).absolute() == data.path.absolute()
    return data.name if is_own else str(data.path)


def _share(count: int, of: int) -> str:
    return f"{count / of * 100:.0f}%" if count == of or count * 100 >= of else "less than 1%"


# Repeated gradings of the same answers by one judge: the first is the score, the others show its spread.


class Gradings(Struct, frozen=True):
    """The spread of the gradings of one judge; fractions between 0 and 1."""

    n: int
    lowest: float
    highest: float
    accuracies: tuple[float, ...]
    """Accuracies in the order of the gradings; the first is the score."""


def gradings(files: RunFiles, judge: JudgeIdentity) -> Gradings | None:
    """Return the gradings of a run by one judge, from the stored judgements; None if there is only one.

    Args:
        judge: identity of any of the gradings.
    """
    ids = gradings_of(files, judge)
    if len(ids) < 2:
        return None
    accuracies = tuple(_accuracy(files, judge_id) for judge_id in ids)
    return Gradings(len(ids), min(accuracies), max(accuracies), accuracies)


def gradings_of(files: RunFiles, judge: JudgeIdentity) -> list[str]:
    """Return the ids of the gradings of a run by one judge, the first and those that exist after it."""
    first = first_of(judge)
    repeats = (grading_of(first, number).id for number in count(2))
    return [first.id, *takewhile(lambda judge_id: files.judged(judge_id).exists, repeats)]


def _accuracy(files: RunFiles, judge_id: str) -> float:
    judgements = files.current_judgements(judge_id)
    credits = [credit(judgements.get(question_id)) or 0.0 for question_id in files.manifest.question_ids]
    return fsum(credits) / len(credits) if credits else 0.0
