"""Audits of a benchmark's labels: the questions they dispute, and scores without these.

An audit is an opinion about the data. Its figures are shown next to the official score, never in its place.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from statistics import fmean

from msgspec import Struct

from longmemeval.core.files import sha256_bytes
from longmemeval.core.text_files import decode_json, reading
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.records import Gold

WRONG_CITATION = "WRONG_CITATION"
"""The gold answer is right but its evidence is not: no score of answers is affected."""
UNSPECIFIED = "UNSPECIFIED"
"""Type of an entry that names none."""
ERROR_TYPES = (
    *("HALLUCINATION", "TEMPORAL_ERROR", "ATTRIBUTION_ERROR", "AMBIGUOUS", "INCOMPLETE"),
    *(UNSPECIFIED, WRONG_CITATION),
)
"""The types of the one large public audit, and one of our own for plain lists of ids."""

PublishedId = Callable[[str, Sequence[str]], str]
"""Maps an id in a published audit, given all haystack ids, to the question's id; other ids are unchanged."""

_MAX_LISTED = 5


class Audit(Struct, frozen=True):
    """The questions of a dataset that an audit disputes, by error type."""

    sha256: str
    """Hash of the file's bytes."""
    by_error_type: dict[str, tuple[str, ...]]
    """Ids of the disputed questions by error type, types in the order of `ERROR_TYPES`, ids in that of the file."""

    @property
    def score_corrupting(self) -> frozenset[str]:
        """Ids of the questions whose gold answer is disputed."""
        types = self.by_error_type.keys() - {WRONG_CITATION}
        return frozenset(question_id for name in types for question_id in self.by_error_type[name])

    @property
    def citation_only(self) -> frozenset[str]:
        """Ids of the questions of which only the evidence is disputed, not the answer."""
        return frozenset(self.by_error_type.get(WRONG_CITATION, ())) - self.score_corrupting


class _Entry(Struct, frozen=True):
    question_id: str
    error_type: str = UNSPECIFIED
    question: str | None = None


def read_audit(path: Path, dataset: Dataset, published_id: PublishedId | None = None) -> Audit:
    """Read an audit of `dataset`.

    Args:
        path: a JSON list of objects with a `question_id`, either of `dataset` or of a published audit; optionally an
            `error_type`, and the text of the `question`, which must then be that of the dataset.
        dataset: the dataset that was audited.
        published_id: maps ids of the published audit to ours; None: there is no such audit.

    Raises:
        HarnessError: the file cannot be read or is not such a list, an error type or a question is unknown, or a text
            does not match its question.
    """
    fix = 'Write it as [{"question_id": …, "error_type": …}, …]'
    with reading("The audit", path, "is not a list of disputed questions", fix=fix):
        data = path.read_bytes()
        entries = decode_json(data, list[_Entry])
    disputed = _by_our_id(entries, dataset, published_id)
    _check(path, disputed, {question.question_id: question.text for question in dataset.questions()})
    by_type: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for question_id, entry in disputed:
        by_type[entry.error_type][question_id] = None
    return Audit(sha256_bytes(data), {name: tuple(by_type[name]) for name in ERROR_TYPES if name in by_type})


def _by_our_id(
    entries: Sequence[_Entry], dataset: Dataset, published_id: PublishedId | None
) -> list[tuple[str, _Entry]]:
    """Return the entries with the ids of their questions in `dataset`; ids of neither form are unchanged."""
    if published_id is None:
        return [(entry.question_id, entry) for entry in entries]
    names = [haystack.haystack_id for haystack in dataset.haystacks()]
    return [(published_id(entry.question_id, names), entry) for entry in entries]


def _check(path: Path, disputed: Sequence[tuple[str, _Entry]], texts: Mapping[str, str]) -> None:
    """Raise a `HarnessError` unless all questions and error types are known and the texts are those in `texts`."""
    if unknown := [entry.question_id for question_id, entry in disputed if question_id not in texts]:
        listed = ", ".join(map(repr, unknown[:_MAX_LISTED])) + (", …" if len(unknown) > _MAX_LISTED else "")
        raise HarnessError(
            f"The audit disputes questions that the dataset does not have, {len(unknown)} in all: {listed}",
            where=str(path),
            fix=nearest(unknown[0], texts),
        )
    for number, (question_id, entry) in enumerate(disputed, start=1):
        where = f"{path}, entry {number} (counted from 1), question '{entry.question_id}'"
        if entry.error_type not in ERROR_TYPES:
            what = f"The audit has an unknown error type '{entry.error_type}'"
            raise HarnessError(what, where=where, fix=nearest(entry.error_type, ERROR_TYPES))
        if entry.question is not None and entry.question.split() != texts[question_id].split():
            raise HarnessError(
                f"The audit is for other data: it has {entry.question!r} where the dataset has {texts[question_id]!r}",
                where=where,
                fix="Load the copy of the dataset that was audited",
            )


class AuditedMean(Struct, frozen=True):
    """A mean score over all questions, and over those that are not disputed."""

    mean: float | None
    """None without questions."""
    n: int
    undisputed_mean: float | None
    """None without an undisputed question."""
    undisputed_n: int


def audited_mean(scores: Mapping[str, float], disputed: Set[str]) -> AuditedMean:
    """Return the mean of `scores` with and without the disputed questions.

    Args:
        scores: credit by question id, of every selected question: 0 for those that were not evaluated.
        disputed: question ids; those without a score are ignored.
    """
    undisputed = [score for question_id, score in scores.items() if question_id not in disputed]
    return AuditedMean(_mean(list(scores.values())), len(scores), _mean(undisputed), len(undisputed))


class Ceiling(Struct, frozen=True):
    """The accuracy of perfect answers that are wrong on disputed questions: the share that is not disputed."""

    overall: float | None
    """None without questions."""
    by_type: dict[str, float]
    """Share by question type, in alphabetical order."""


def ceiling(golds: Iterable[Gold], disputed: Set[str]) -> Ceiling:
    """Return the share of questions that are not disputed.

    Args:
        golds: gold of the questions to count; an audit may have looked at some types only.
        disputed: question ids, usually `Audit.score_corrupting`.
    """
    undisputed: defaultdict[str, list[float]] = defaultdict(list)
    for gold in golds:
        undisputed[gold.question_type].append(float(gold.question_id not in disputed))
    overall = _mean([value for values in undisputed.values() for value in values])
    return Ceiling(overall, {name: fmean(undisputed[name]) for name in sorted(undisputed)})


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
