"""Check the runs given to `merge`: they must be all the shards of one run, alike in settings."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct, structs

from longmemeval.core.files import sha256_file
from longmemeval.core.text.figures import listed
from longmemeval.core.text.words import differences
from longmemeval.errors import HarnessError
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.results.manifest import MergedShard, RunManifest, run_folder
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions, dataset_of
from longmemeval.results.scores.checked import read_run
from longmemeval.results.selection import Selection, Shard, shard_named, shards_with_questions
from longmemeval.settings import Folders

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
        "data set content": shard_run.manifest.dataset.get("content_sha256"),
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
