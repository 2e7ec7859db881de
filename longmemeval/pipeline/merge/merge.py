"""Merge the runs of all shards into one run, which verifies as if it had never been split."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from longmemeval.core.files import write_atomic
from longmemeval.core.journal import LockedError, locked
from longmemeval.errors import HarnessError
from longmemeval.llm.costs import JUDGES_SPENDING, SPENDING
from longmemeval.llm.model_calls import CALLS
from longmemeval.pipeline.merge.journals import merge_accounts, merge_lines
from longmemeval.pipeline.merge.shard_runs import ShardRun, judges_of, shard_runs, whole_of
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
from longmemeval.results.manifest import RunManifest, check_run_id, read_manifest, write_manifest
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions, dataset_of
from longmemeval.results.scores.checked import write_scores
from longmemeval.results.selection import base_of
from longmemeval.results.settings import ImportedSettings, RetrievalSettings, RunSettings
from longmemeval.settings import Folders


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
        raise HarnessError("There is nothing to merge", fix="Name the runs of all shards")
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
        raise HarnessError(f"Another process is merging run '{name}'", fix="Wait for it") from error
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
            f"There is a run '{target.name}' already, {what}", where=str(target), fix="Give another --run-id"
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
