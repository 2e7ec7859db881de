"""Audits of a benchmark's labels: the questions they dispute, and scores without these.

An audit is an opinion about the data. Its figures are shown next to the official score, never in its place. Audits with
a name are data: `audits.json` in the folder of a benchmark has ids, kinds and hashes of questions, no texts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from statistics import fmean

import msgspec
from msgspec import Struct, structs

from longmemeval.core.files import sha256_bytes
from longmemeval.core.text_files import decode_json, reading
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.records import Gold

UNSPECIFIED = "UNSPECIFIED"
"""Type of an entry that names none."""
WRONG_GOLD = "gold contradicts the history"
AMBIGUOUS = "ambiguous"
DISPUTED = "disputed without a reason"
LATER_EVIDENCE = "evidence dated after the question"
"""The official protocol shows such evidence, so the gold answer stands: a note, like the kinds below."""
WRONG_EVIDENCE = "evidence labels wrong"
"""The gold answer is right but its evidence is not: no score of answers is affected."""
FIRST_RELEASE = "reported for the first release"
"""Later releases were mended since."""
KINDS = {
    **dict.fromkeys(
        ("HALLUCINATION", "TEMPORAL_ERROR", "ATTRIBUTION_ERROR", "INCOMPLETE", "CONTRADICTS_HISTORY"), WRONG_GOLD
    ),
    "AMBIGUOUS": AMBIGUOUS,
    UNSPECIFIED: DISPUTED,
    "LATER_EVIDENCE": LATER_EVIDENCE,
    "WRONG_CITATION": WRONG_EVIDENCE,
    "FIRST_RELEASE": FIRST_RELEASE,
}
"""The kind of each error type: types of the one large public audit, one for plain lists of ids, and ours."""
NOTES = frozenset({LATER_EVIDENCE, WRONG_EVIDENCE, FIRST_RELEASE})
"""Kinds that leave the gold answer as it is, and the ceiling too."""

PublishedId = Callable[[str, Sequence[str]], str]
"""Maps an id in a published audit, given all haystack ids, to the question's id; other ids are unchanged."""

_MAX_LISTED = 5


class Audit(Struct, frozen=True):
    """The questions of a dataset that an audit disputes, by error type."""

    sha256: str
    """Hash of the file's bytes."""
    by_error_type: dict[str, tuple[str, ...]]
    """Ids of the disputed questions by error type, types in the order of `KINDS`, ids in that of the file."""
    name: str = ""
    """Its name in a catalogue, or that of the file."""
    about: str = ""
    """A sentence on who made it and how; empty if not known."""
    elsewhere: int = 0
    """Entries of a named audit that do not apply: the dataset does not have the question, or has another text."""

    @property
    def by_kind(self) -> dict[str, frozenset[str]]:
        """Ids of the questions by kind of dispute, kinds in the order of `KINDS`."""
        kinds: dict[str, frozenset[str]] = {}
        for name, ids in self.by_error_type.items():
            kinds[KINDS[name]] = kinds.get(KINDS[name], frozenset()) | set(ids)
        return kinds

    @property
    def score_corrupting(self) -> frozenset[str]:
        """Ids of the questions whose gold answer is disputed."""
        return frozenset[str]().union(*(ids for kind, ids in self.by_kind.items() if kind not in NOTES))

    @property
    def citation_only(self) -> frozenset[str]:
        """Ids of the questions of which only the evidence is disputed, not the answer."""
        return self.by_kind.get(WRONG_EVIDENCE, frozenset()) - self.score_corrupting


class _Entry(Struct, frozen=True):
    question_id: str
    error_type: str = UNSPECIFIED
    question: str | None = None
    question_sha256: str = ""
    """Hash of the question's text, words apart by single spaces (`text_sha256`); empty: `question` has the text."""


class NamedAudit(Struct, frozen=True, forbid_unknown_fields=True):
    """A published audit in the catalogue of a benchmark."""

    name: str
    about: str
    """A sentence on who made it and how far it can be relied on; shown with its figures."""
    source: str
    licence: str
    questions: int
    """Number of questions that were audited."""
    disputed: tuple[_Entry, ...] = ()
    download: str = ""
    """Where to get the file, if its licence does not allow us to ship the entries."""
    wrong: int | None = None
    """Number of questions with a disputed gold answer, if the entries are not shipped."""

    @property
    def ceiling(self) -> float:
        """The share of its questions that are not disputed."""
        wrong = {entry.question_id for entry in self.disputed if KINDS[entry.error_type] not in NOTES}
        return 1 - (len(wrong) if self.wrong is None else self.wrong) / self.questions


@cache
def named_audits(catalogue: Path | None) -> Mapping[str, NamedAudit]:
    """Return the audits in the catalogue of a benchmark, by name; none without a catalogue."""
    if catalogue is None:
        return {}
    audits = msgspec.json.decode(catalogue.read_bytes(), type=list[NamedAudit])
    return {audit.name: audit for audit in audits}


def text_sha256(question: str) -> str:
    """Return the hash by which a named audit knows a question's text."""
    return sha256_bytes(" ".join(question.split()).encode())


def audit_of(
    name: str, dataset: Dataset, catalogue: Path | None, published_id: PublishedId | None, data_dir: Path
) -> Audit:
    """Return an audit by its name in the catalogue of a benchmark, or by the path of its file.

    Args:
        data_dir: the folder for files that we may not ship.

    Raises:
        HarnessError: no audit has this name, the file is still to be fetched, or as `read_audit`.
    """
    known = named_audits(catalogue)
    if name not in known:
        if not Path(name).suffix and not Path(name).exists():
            fix = (nearest(name, known) if known else "") or "Give the path of a JSON file"
            raise HarnessError(f"Unknown audit '{name}' of {dataset.benchmark}", fix=fix)
        return read_audit(Path(name), dataset, published_id)
    audit = known[name]
    if audit.download:
        file = data_dir / f"{name}.json"
        if not file.is_file():
            raise HarnessError(
                f"The audit '{name}' is not shipped: its licence is {audit.licence}",
                fix=f"Save {audit.download} as {file}, and run the command again",
            )
        return structs.replace(read_audit(file, dataset, published_id), name=name, about=audit.about)
    texts = {question.question_id: text_sha256(question.text) for question in dataset.questions()}
    here = [entry for entry in audit.disputed if texts.get(entry.question_id) == entry.question_sha256]
    return Audit(
        sha256_bytes(msgspec.json.encode(audit)),
        _by_type((entry.question_id, entry) for entry in here),
        name,
        audit.about,
        len(audit.disputed) - len(here),
    )


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
    return Audit(sha256_bytes(data), _by_type(disputed), path.name)


def _by_type(disputed: Iterable[tuple[str, _Entry]]) -> dict[str, tuple[str, ...]]:
    by_type: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for question_id, entry in disputed:
        by_type[entry.error_type][question_id] = None
    return {name: tuple(by_type[name]) for name in KINDS if name in by_type}


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
        if entry.error_type not in KINDS:
            what = f"The audit has an unknown error type '{entry.error_type}'"
            raise HarnessError(what, where=where, fix=nearest(entry.error_type, KINDS))
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
