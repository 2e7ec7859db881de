"""Merge the runs of all shards into one run, which verifies as if it had never been split."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from longmemeval.core.files import sha256_bytes, sha256_file, write_atomic
from longmemeval.core.journal import LockedError, locked
from longmemeval.core.text.figures import listed
from longmemeval.core.text.words import differences
from longmemeval.errors import HarnessError
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.llm.costs import JUDGES_SPENDING, SPENDING
from longmemeval.llm.model_calls import CALLS
from longmemeval.pipeline.verify.retrieval import scored_again
from longmemeval.results.index import record_score
from longmemeval.results.lines import (
    ANSWERS,
    FOOTPRINT,
    PROMPTS,
    RANKINGS,
    judgements_file,
    memory_call_totals,
    merged_footprint,
)
from longmemeval.results.manifest import (
    MergedShard,
    RunManifest,
    check_run_id,
    read_manifest,
    run_folder,
    write_manifest,
)
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions, dataset_of
from longmemeval.results.scores.checked import read_run, write_scores
from longmemeval.results.selection import Selection, Shard, base_of, shard_named, shards_with_questions
from longmemeval.results.settings import ImportedSettings, RetrievalSettings, RunSettings
from longmemeval.settings import Folders

# Merge the journals of several runs in the order of the questions; lines stay as they were, byte for byte.


class _Line(Struct):
    """The id that a line is about."""

    question_id: str = ""
    haystack_id: str = ""


def merge_lines(files: Sequence[Path], merged: Path, order: Mapping[str, int], *, others: bool = True) -> str:
    """Write the lines of several journals; those of one question stay in the order in which they were written.

    Only offsets are in memory, not lines: prompts may be larger than all else together.

    Args:
        files: journals; missing ones have no lines.
        merged: the file to write.
        order: the position of each question id, or of each haystack id if lines have no question.
        others: True to keep lines about ids without a position, at the end.

    Returns:
        The sha256 of the merged file; empty if none of `files` exists.
    """
    existing = [path for path in files if path.exists()]
    if not existing:
        return ""
    digest = hashlib.sha256()
    decoder = msgspec.json.Decoder(_Line)
    with ExitStack() as stack:
        handles = [stack.enter_context(path.open("rb")) for path in existing]
        places = []
        for number, handle in enumerate(handles):
            start = 0
            for line in handle:
                if line.endswith(b"\n"):
                    about = decoder.decode(line)
                    key = about.question_id or about.haystack_id
                    if others or key in order:
                        places.append((order.get(key, len(order)), number, start, len(line)))
                start += len(line)
        merged.parent.mkdir(parents=True, exist_ok=True)
        written = stack.enter_context(merged.open("wb"))
        for _, number, start, length in sorted(places):
            handles[number].seek(start)
            line = handles[number].read(length)
            digest.update(line)
            written.write(line)
    return digest.hexdigest()


def merge_accounts(files: Sequence[Path], merged: Path) -> str:
    """Concatenate accounts: the sum of all is what they say was spent in total.

    Each account begins with a session, so whatever the one before left unfinished counts as spent.

    Returns:
        As for `merge_lines`.
    """
    contents = [path.read_bytes() for path in files if path.exists()]
    if not contents:
        return ""
    data = b"".join(content if content.endswith(b"\n") else content + b"\n" for content in contents)
    write_atomic(merged, data)
    return sha256_bytes(data)


# Check the runs given to `merge`: they must be all the shards of one run, alike in settings.

_PER_SHARD = "parts"
"""The one setting that is counted over a run's own haystacks."""


class ShardRun(Struct, frozen=True):
    """The run of one shard."""

    shard: Shard
    selection: Selection
    """The selection of the whole run."""
    files: RunFiles

    @property
    def manifest(self) -> RunManifest:
        """The manifest of the shard's run."""
        return self.files.manifest

    @property
    def name(self) -> str:
        """The name that messages use."""
        return f"shard {self.shard} (run '{self.manifest.run_id}')"

    def record(self) -> MergedShard:
        """Return the record of this shard for the merged run's manifest."""
        files = self.files
        judged = {f"judgements/{name}.jsonl": files.judged(name).sha256 for name in files.judge_ids}
        return MergedShard(
            run_id=self.manifest.run_id,
            shard=str(self.shard),
            questions=len(self.manifest.question_ids),
            started_at=self.manifest.started_at,
            ended_at=self.manifest.ended_at,
            manifest_sha256=sha256_file(files.folder / "run.json"),
            files={**self.manifest.files, **judged},
            environment=self.manifest.environment,
        )


def shard_runs(run_ids: Sequence[str], folders: Folders) -> list[ShardRun]:
    """Return the runs in the order of their shards, none twice and all made in the same way.

    Raises:
        HarnessError: a run is not a shard, has not ended, is given twice or differs from the others; the message names
            its shard and the difference.
        IntegrityError: its files are not as it left them.
    """
    found = sorted(
        (_shard_run(run_id, folders) for run_id in dict.fromkeys(run_ids)), key=lambda shard_run: shard_run.shard
    )
    divisions = {shard_run.shard.of: shard_run for shard_run in reversed(found)}
    if len(divisions) > 1:
        named = "; ".join(shard_run.name for shard_run in divisions.values())
        raise HarnessError(f"The runs are shards of different divisions: {named}", fix="Merge those of one division")
    for first, second in pairwise(found):
        if first.shard == second.shard:
            ids = f"'{first.manifest.run_id}' and '{second.manifest.run_id}'"
            raise HarnessError(f"Shard {first.shard} is given twice, by runs {ids}", fix="Name one of them")
    _check_alike(found)
    return found


def _shard_run(run_id: str, folders: Folders) -> ShardRun:
    files = RunFiles(run_folder(folders.results_dir, run_id))
    manifest = files.manifest
    if not manifest.selection.shard:
        raise HarnessError(
            f"Run '{run_id}' is not a shard: it was made without --shard",
            where=str(files.folder),
            fix="Name the runs of all shards and no others",
        )
    shard = shard_named(manifest.selection.shard)
    if manifest.status == "running":
        raise HarnessError(
            f"Shard {shard} has not ended: run '{run_id}' is running, or its process died",
            where=str(files.folder),
            fix="Wait for it, or rerun its command; then merge",
        )
    read_run(files)
    return ShardRun(shard, structs.replace(manifest.selection, shard=""), files)


def _check_alike(found: Sequence[ShardRun]) -> None:
    """Raise if a run was made differently from most of them."""
    views = [_decisive(shard_run) for shard_run in found]
    encoded = [msgspec.json.encode(view, order="sorted") for view in views]
    majority = encoded.index(Counter(encoded).most_common(1)[0][0]) if found else 0
    for shard_run, view in zip(found, views, strict=True):
        template = f"{{new!r}}, in shard {found[majority].shard} {{old!r}}"
        if changed := differences(views[majority], view, template=template):
            raise HarnessError(
                f"{shard_run.name.capitalize()} differs from the others: {listed(changed, 5, '; ')}",
                fix=f"Run shard {shard_run.shard} again with the settings of the others, under another --run-id",
            )


def _decisive(shard_run: ShardRun) -> dict[str, Any]:
    """Return the values that all shards of a run must have in common."""
    settings = {name: value for name, value in shard_run.manifest.settings.comparable.items() if name != _PER_SHARD}
    view = {
        "kind": shard_run.manifest.kind,
        "dataset content": shard_run.manifest.dataset.get("content_sha256"),
        "settings": settings,
        "selection": shard_run.selection,
    }
    plain: dict[str, Any] = msgspec.to_builtins(view)
    return plain


def whole_of(shards: Sequence[ShardRun], run_id: str, dataset: str | None, folders: Folders) -> RunManifest:
    """Return the manifest of the whole run, with its data, settings and questions.

    Args:
        shards: the shards, from `shard_runs`.
        run_id: id of the whole run.
        dataset: the location of the data, if it has moved.

    Raises:
        HarnessError: a shard is missing.
        IntegrityError: a run does not have the questions of its shard.
    """
    first = shards[0].manifest
    data = dataset_of(first, dataset, folders)
    questions = list(data.questions())
    wanted = shards_with_questions(questions, shards[0].selection, shards[0].shard.of, data.question_type)
    merged = {str(shard_run.shard) for shard_run in shards}
    if missing := [shard for shard in wanted if shard not in merged]:
        several = len(missing) > 1
        raise HarnessError(
            f"{'Shards' if several else 'Shard'} {', '.join(missing)} {'are' if several else 'is'} missing",
            fix="Run it and name its run too" if not several else "Run them and name their runs too",
        )
    run_questions = [RunQuestions(shard_run.manifest, data) for shard_run in shards]
    chosen = {question_id for questions_of_shard in run_questions for question_id in questions_of_shard.questions}
    return structs.replace(
        first,
        run_id=run_id,
        selection=shards[0].selection,
        question_ids=tuple(question.question_id for question in questions if question.question_id in chosen),
    )


def judges_of(found: Sequence[ShardRun]) -> list[JudgeIdentity]:
    """Return the judges that have graded all shards.

    Raises:
        HarnessError: a judge has graded some shards and not others; the message names these.
    """
    if found[0].manifest.kind == "retrieval":
        return []
    scored = [{metrics.judge.id: metrics.judge for metrics in shard.files.metrics} for shard in found]
    known = sorted(
        {name for shard in found for name in shard.files.judge_ids} | {name for metrics in scored for name in metrics}
    )
    for judge in known:
        if lacking := [shard for shard, judges in zip(found, scored, strict=True) if judge not in judges]:
            named = ", ".join(str(shard.shard) for shard in lacking)
            raise HarnessError(
                f"{'Shards' if len(lacking) > 1 else 'Shard'} {named} {'are' if len(lacking) > 1 else 'is'} not graded "
                f"by {judge}, others are",
                fix=f"Run `longmemeval evaluate {lacking[0].manifest.run_id}` with this judge, then merge",
            )
    return [
        # By a server's own report one of them may not have been the official judge's model.
        structs.replace(scored[0][judge], official=all(identities[judge].official for identities in scored))
        for judge in known
    ]


class MergeReport(Struct, frozen=True):
    """The outcome of `merge`."""

    run_id: str
    folder: str
    kind: str
    shards: int
    questions: int
    answered: int
    """The number of questions answered, or ranked."""
    judges: tuple[str, ...]
    """The ids of the judges that have graded all shards."""
    already: bool = False
    """True if these shards were merged before; nothing was written."""


def merge(
    run_ids: Sequence[str], *, run_id: str | None = None, dataset: str | None = None, folders: Folders | None = None
) -> MergeReport:
    """Merge the runs of all shards into one run; the shards' runs stay as they are.

    Args:
        run_ids: the shards' runs, in any order.
        run_id: id of the merged run; None: the common beginning of the shards' names.
        dataset: the location of the data, if it has moved.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: a shard is missing, given twice, has not ended or differs from the others. Nothing is written.
        IntegrityError: the files of a shard are not as it left them. Nothing is written.
    """
    folders = folders or Folders()
    if not run_ids:
        raise HarnessError("No runs to merge", fix="Name the runs of all shards")
    found = shard_runs(run_ids, folders)
    name = check_run_id(run_id or _common_name(found))
    whole = whole_of(found, name, dataset, folders)
    judges = judges_of(found)
    target = folders.results_dir / name
    report = MergeReport(
        run_id=name,
        folder=str(target),
        kind=whole.kind,
        shards=len(found),
        questions=len(whole.question_ids),
        answered=sum(_done(shard_run) for shard_run in found),
        judges=tuple(judge.id for judge in judges),
    )
    records = tuple(shard_run.record() for shard_run in found)
    # Hidden, so that no command takes an incomplete folder for a run.
    unfinished = folders.results_dir / f".{name}.merging"
    try:
        with locked(unfinished, wait=False):
            if target.exists():
                _check_same_shards(target, records)
                return structs.replace(report, already=True)
            shutil.rmtree(unfinished, ignore_errors=True)
            try:
                run_questions = RunQuestions(whole, dataset_of(whole, dataset, folders))
                files = _write(unfinished, found, whole, run_questions, records)
                scores = [write_scores(files, run_questions, judge) for judge in judges]
                unfinished.rename(target)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
            for metrics in scores:
                record_score(
                    folders.results_dir,
                    files.manifest,
                    metrics,
                    run_questions.part,
                    run_questions.protocol_note(metrics.judge.official),
                )
    except LockedError as error:
        raise HarnessError(f"Run '{name}' is being merged by another call", fix="Wait for it") from error
    return report


def _common_name(found: Sequence[ShardRun]) -> str:
    names = {base_of(shard_run.manifest.run_id) for shard_run in found}
    name = names.pop()
    if names or not name:
        raise HarnessError(
            "The names of the shards have no common beginning to name the whole run after", fix="Give --run-id NAME"
        )
    return name


def _check_same_shards(target: Path, records: Sequence[Struct]) -> None:
    stored = read_manifest(target).merged_from if (target / "run.json").exists() else ()
    if stored != records:
        what = "merged from other shards, or shards that have changed since" if stored else "not merged from shards"
        raise HarnessError(
            f"Run '{target.name}' already exists, {what}", where=str(target), fix="Give another --run-id"
        )


def _done(shard_run: ShardRun) -> int:
    files = shard_run.files
    return len(files.rankings) or sum(answer.status == "ok" for answer in files.answers.values())


def _write(
    folder: Path, found: Sequence[ShardRun], whole: RunManifest, run_questions: RunQuestions, records: tuple[Any, ...]
) -> RunFiles:
    """Write journals, accounts and manifest of the whole run."""
    order = {question_id: number for number, question_id in enumerate(run_questions.questions)}
    haystacks = dict.fromkeys(question.haystack_id for question in run_questions.questions.values())
    sources = [shard_run.files.folder for shard_run in found]
    hashes = {
        name: merge_lines([source / name for source in sources], folder / name, order)
        for name in (ANSWERS, PROMPTS, RANKINGS)
    }
    for judge in found[0].files.judge_ids:
        merge_lines([judgements_file(source, judge) for source in sources], judgements_file(folder, judge), order)
    by_haystack = {haystack_id: number for number, haystack_id in enumerate(haystacks)}
    merge_lines([source / CALLS for source in sources], folder / CALLS, by_haystack)
    for name in (SPENDING, JUDGES_SPENDING):
        merge_accounts([source / name for source in sources], folder / name)
    read = {name: parts for shard_run in found for name, parts in shard_run.manifest.fixtures.items()}
    manifests = [shard_run.manifest for shard_run in found]
    manifest = structs.replace(
        whole,
        status="completed" if all(shard.status == "completed" for shard in manifests) else "incomplete",
        settings=_settings(manifests),
        fixtures={name: read[name] for name in haystacks if name in read},
        started_at=min(shard.started_at for shard in manifests),
        ended_at=max(shard.ended_at for shard in manifests),
        totals=_totals(manifests) | memory_call_totals(folder),
        files={name: digest for name, digest in hashes.items() if digest},
        merged_from=records,
    )
    write_manifest(folder, manifest)
    if isinstance(manifest.settings, RetrievalSettings):
        _score_rankings(folder, sources[0], manifest, run_questions)
    return RunFiles(folder, manifest=manifest)


def _score_rankings(folder: Path, first: Path, manifest: RunManifest, run_questions: RunQuestions) -> None:
    """Score the rankings of the whole run by the measures of the first shard."""
    for file in sorted((first / "metrics").glob("retrieval-*.json")):
        results = scored_again(file, RunFiles(folder, manifest=manifest), run_questions.dataset)
        write_atomic(
            folder / "metrics" / file.name, msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"
        )


def _settings(manifests: Sequence[RunManifest]) -> RunSettings:
    """Return the settings of all shards; the sums of parts are added up over the haystacks of all."""
    settings = manifests[0].settings
    if isinstance(settings, ImportedSettings) or not settings.parts:
        return settings
    parts = added_up([manifest.settings.parts for manifest in manifests])
    return structs.replace(settings, parts=parts)


def _totals(manifests: Sequence[RunManifest]) -> dict[str, Any]:
    """Return the sum of all totals that add up; of the machines' loads, the heaviest."""
    stated = [manifest.totals for manifest in manifests]
    totals = added_up([{name: counts[name] for name in counts if name != FOOTPRINT} for counts in stated])
    totals |= merged_footprint(stated)
    if "seconds" in totals:
        totals["seconds"] = round(totals["seconds"], 3)
    loads = [manifest.totals["load"] for manifest in manifests if "load" in manifest.totals]
    if loads:
        totals["load"] = max(loads, key=lambda load: float(load.get("added_p50_ms", 0.0)))
    if isinstance(manifests[0].settings, ImportedSettings):
        # Counts of the imported file, which is the same for all.
        totals["unknown"] = manifests[0].totals.get("unknown", 0)
    return totals


def added_up(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up the reports of several runs: sum numbers, unite lists, and take the first of texts."""
    sums: dict[str, Any] = {}
    for summary in summaries:
        for name, value in summary.items():
            before = sums.get(name)
            if isinstance(value, Mapping):
                sums[name] = added_up([before or {}, value])
            elif isinstance(value, int | float) and not isinstance(value, bool):
                sums[name] = (before or 0) + value
            elif isinstance(value, list | tuple):
                sums[name] = list(dict.fromkeys([*(before or ()), *value]))
            elif before is None:
                sums[name] = value
    return sums
