"""Make a run that can be graded from another system's answers in the official format."""

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes, write_atomic
from longmemeval.core.journal import now
from longmemeval.core.text_files import UnreadableError, decode_json, reading
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.records import Answer
from longmemeval.results.lines import ANSWERS
from longmemeval.results.manifest import (
    FORMAT,
    RunManifest,
    check_run_id,
    dataset_record,
    environment,
    read_manifest,
    write_manifest,
)
from longmemeval.results.selection import Selection, select
from longmemeval.results.settings import HypothesesSettings, ImportedSettings


class OfficialLabel(Struct, frozen=True):
    """The fields that the official script adds to a line it has judged."""

    label: bool
    model: str = ""


class HypothesisLine(Struct, frozen=True, omit_defaults=True):
    """One line of a hypothesis file or, with a label, of a judged log."""

    question_id: str
    hypothesis: str
    autoeval_label: OfficialLabel | None = None


class Adopted(Struct, frozen=True):
    """The run made from a file, and the mismatches between file and data set."""

    run_id: str
    lines: dict[str, HypothesisLine]
    """Lines of the selected questions only, by question id."""
    unknown: tuple[str, ...]
    """Question ids in the file that are not in the data set."""
    missing: tuple[str, ...]
    """Selected questions without a hypothesis: they count as not evaluated."""
    repeated: dict[str, int]
    """Questions that the file answers several times in the same words, with the number of times: here they count once,
    in the official script every time."""
    unlabelled_lines: int = 0
    """Number of lines of the file without a label."""
    is_jsonl: bool = True
    """True if every line is one record, as the official script requires, without blank lines or byte-order mark."""


def adopt_hypotheses(
    file: Path, dataset: Dataset, results_dir: Path, *, selection: Selection = Selection(), run_id: str | None = None
) -> Adopted:
    """Make a run from a hypothesis file: JSONL (or one JSON list) of `{"question_id", "hypothesis"}`.

    Args:
        file: the hypothesis file; other fields of a line are ignored.
        dataset: the data set of the questions; every selected one counts, answered or not.
        results_dir: folder of the new run; adopting the same file again changes nothing.
        selection: the questions that were to be answered.
        run_id: None: made from the file's name and a hash of its content, the data and the selection.

    Raises:
        HarnessError: unreadable file, a bad line, two different answers to one question, or no known question.
    """
    with reading("The hypothesis file", file):
        data = file.read_bytes()
    lines, digest = _parse(data, file), sha256_bytes(data)
    settings = ImportedSettings(hypotheses=HypothesesSettings(file.name, digest), unknown_questions=())
    adopted = adopt_lines(lines, file, digest, settings, dataset, results_dir, selection=selection, run_id=run_id)
    whole = all(line.startswith(b"{") for line in data.removesuffix(b"\n").split(b"\n"))
    return msgspec.structs.replace(adopted, is_jsonl=whole)


def adopt_lines(
    lines: Sequence[HypothesisLine],
    file: Path,
    digest: str,
    settings: ImportedSettings,
    dataset: Dataset,
    results_dir: Path,
    *,
    selection: Selection = Selection(),
    run_id: str | None = None,
) -> Adopted:
    """Make a run from answers; arguments and errors as for `adopt_hypotheses`.

    Args:
        lines: the answers; those to questions that the data set does not have are left out.
        digest: hash of everything that determines the answers.
        settings: the known settings of the run; unknown questions are added to those it lists.
    """
    if not lines:
        raise HarnessError("The file holds no hypothesis", where=str(file))
    chosen = select(list(dataset.questions()), selection, dataset.question_type)
    question_ids = tuple(question.question_id for question in chosen)
    graded = sha256_bytes(msgspec.json.encode([digest, dataset.content_sha256, question_ids]))
    run_id = check_run_id(run_id or f"{_stem(file)}-{graded[:8]}")
    hypotheses = _by_question(lines, file)
    occurrences = Counter(line.question_id for line in lines)
    known = {question.question_id for question in dataset.questions()}
    unknown = (*settings.unknown_questions, *(name for name in hypotheses if name not in known))
    if not known.intersection(hypotheses):
        raise HarnessError(
            f"No question id of this file is in the data set '{dataset.name}' (first: '{unknown[0]}')",
            where=str(file),
            fix="Name the data set of the file with --dataset",
        )
    adopted = Adopted(
        run_id=run_id,
        lines={name: hypotheses[name] for name in question_ids if name in hypotheses},
        unknown=unknown,
        missing=tuple(name for name in question_ids if name not in hypotheses),
        repeated={name: times for name, times in occurrences.items() if times > 1},
        unlabelled_lines=sum(line.autoeval_label is None for line in lines),
    )
    settings = msgspec.structs.replace(settings, unknown_questions=adopted.unknown, repeated_questions=adopted.repeated)
    manifest = _manifest(adopted, settings, dataset, question_ids, selection)
    folder = results_dir / run_id
    if (folder / "run.json").exists():
        _check_same(read_manifest(folder), manifest)
        return adopted
    answers = [Answer(question_id=name, hypothesis=hypotheses[name].hypothesis, status="ok") for name in adopted.lines]
    journal = b"".join(msgspec.json.encode(answer) + b"\n" for answer in answers)
    write_atomic(folder / ANSWERS, journal)
    write_manifest(folder, msgspec.structs.replace(manifest, files={ANSWERS: sha256_bytes(journal)}))
    return adopted


def _manifest(
    adopted: Adopted,
    settings: ImportedSettings,
    dataset: Dataset,
    question_ids: tuple[str, ...],
    selection: Selection,
) -> RunManifest:
    return RunManifest(
        format=FORMAT,
        run_id=adopted.run_id,
        status="completed",
        dataset=dataset_record(dataset),
        settings=settings,
        question_ids=question_ids,
        fixtures={},
        environment=environment(),
        started_at=now(),
        ended_at=now(),
        selection=selection,
        totals={
            "answered": len(adopted.lines),
            "missing": len(adopted.missing),
            "unknown": len(adopted.unknown),
        },
    )


def _check_same(before: RunManifest, new: RunManifest) -> None:
    same = before.settings == new.settings and before.question_ids == new.question_ids
    if not same or before.dataset["content_sha256"] != new.dataset["content_sha256"]:
        raise HarnessError(
            f"Run '{before.run_id}' was made from another file, data set or selection",
            fix="Choose another --run-id",
        )


def _parse(data: bytes, file: Path) -> list[HypothesisLine]:
    data = data.removeprefix(BOM_UTF8)
    if data.lstrip().startswith(b"["):
        try:
            return decode_json(data, list[HypothesisLine])
        except UnreadableError as error:
            raise HarnessError(f"The file is not a list of hypotheses: {error}", where=str(file)) from error
    lines = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            lines.append(decode_json(line, HypothesisLine))
        except UnreadableError as error:
            raise HarnessError(
                f"The line is not a hypothesis: {error}",
                where=f"{file}, line {number}",
                fix='Each line must be {"question_id": "…", "hypothesis": "…"}',
            ) from error
    return lines


def _by_question(lines: Iterable[HypothesisLine], file: Path) -> dict[str, HypothesisLine]:
    hypotheses: dict[str, HypothesisLine] = {}
    for line in lines:
        if hypotheses.setdefault(line.question_id, line) != line:
            raise HarnessError(
                f"Question '{line.question_id}' has two different hypotheses or labels",
                where=str(file),
                fix="Keep the first attempt only: it is the one that counts",
            )
    return hypotheses


def _stem(file: Path) -> str:
    letters = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._+-") else "-" for letter in file.stem
    )
    return letters.lstrip("._+-")[:80] or "hypotheses"
