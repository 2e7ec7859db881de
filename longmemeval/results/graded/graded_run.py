"""Graded runs, read back from their files: what comparing, reporting and exporting start from."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec import Struct

from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.official_status import grading
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.llm.model_calls import CallSums
from longmemeval.measures.metrics import Latency, Metrics, credit, latency
from longmemeval.memory.definition import Control
from longmemeval.records import Answer, Judgement
from longmemeval.results.graded.controls import control_of, controls_last
from longmemeval.results.graded.costs import RunCosts, run_costs
from longmemeval.results.graded.judge_checks import CheckedScore, JudgeChecks, StoredCheck, checked_score
from longmemeval.results.graded.recall_stability import RecallStability
from longmemeval.results.manifest import RunManifest, run_folder
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions, dataset_of
from longmemeval.results.scores.checked import read_run, recompute_scores
from longmemeval.results.scores.gradings import Gradings, gradings
from longmemeval.results.scores.warnings import ScoreWarning, judge_warnings, question_warnings, recall_warnings
from longmemeval.results.settings import ImportedSettings
from longmemeval.results.totals import memory_calls
from longmemeval.settings import Folders


class RunLatency(Struct, frozen=True):
    """Milliseconds per answered question; None for answers of another system.

    The percentiles of the sum are of the questions' sums: they are not the sums of the percentiles.
    """

    recall: Latency
    """Until the memory system had found what the model should see."""
    model: Latency
    """In model calls, retries and waiting included."""
    total: Latency
    """Both: what somebody who asks waits for."""


class RunSummary(Struct, frozen=True):
    """One run in one record: what was run, how one judge scored it, what it cost."""

    run_id: str
    memory: str
    reads_gold: bool
    control: Control | None
    """Where it is no memory system: what it stands beside them for."""
    model: str
    embedder: str
    """Spec, or empty when no vectors were read."""
    metrics: Metrics
    mean_prompt_tokens: float | None
    """Mean tokens of all prompts as sent per answered question; None for answers of another system."""
    calls_per_question: float | None
    """Mean model calls per answered question; None like the tokens."""
    costs: RunCosts
    latency: RunLatency
    shortened: int
    failed: int
    status: str = "completed"
    """Of the run, as its manifest says."""
    latency_note: str = ""
    """Why the latencies are not those of the model alone, in a sentence; empty where they are."""
    gradings: Gradings | None = None
    """Of these answers by this judge, where there are several: the first is the score."""
    judge_check: CheckedScore | None = None
    """Where this judge was checked on the benchmark: its rates, and what the score is when corrected for them."""
    warnings: tuple[ScoreWarning, ...] = ()
    """What makes the score worth less than it looks."""
    part: str = ""
    """How many questions of how many, and how they were chosen; empty for the whole data set."""
    type_notes: tuple[str, ...] = ()
    """What the benchmark has to say of question types that it shows."""
    not_reproducible: tuple[str, ...] = ()
    """Parts read that would not come out the same if they were prepared again."""
    undated: int = 0
    """Answers read from items of which the memory does not tell the date."""
    memory_calls: CallSums = CallSums()
    """What the memory itself asked of models while it was searched."""
    parts_told: dict[str, dict[str, Any]] = {}
    """What those parts say of themselves, by name; see `Made.told`."""
    protocol_note: str = ""
    """What the benchmark's own protocol, where the run followed it, means for these scores; empty without one."""


class StoredChecks:
    """What other commands found out that scores are shown beside; each file is read once.

    Args:
        results_dir: where the runs are.
    """

    def __init__(self, results_dir: Path) -> None:
        self.judges = JudgeChecks(results_dir)
        self.asked_twice = RecallStability(results_dir)


def summarise(
    files: RunFiles, asked: RunQuestions, metrics: Metrics, where: Folders, checks: StoredChecks | None = None
) -> RunSummary:
    """The summary of one run.

    Args:
        files: of the run, checked.
        asked: its questions and their gold.
        metrics: its scores by one judge.
        where: the folders; the journal of a preparation tells what it cost.
        checks: of judges and memories, shared with other runs; None: read for this one.
    """
    manifest, settings = files.manifest, files.manifest.settings
    checks = checks or StoredChecks(where.results_dir)
    content, benchmark = manifest.dataset["content_sha256"], asked.benchmark.name
    stored = checks.judges.of(metrics.judge, benchmark, content)
    labels = metrics.judge.metric == "accuracy"
    judge_check = checked_score(metrics.overall, stored, labels=labels, content_sha256=content)
    refused = [] if judge_check and not judge_check.other_data else checks.judges.refused(metrics.judge, benchmark)
    control = control_of(settings)
    answered = [answer for answer in files.answers.values() if answer.status == "ok"]
    own = manifest.kind == "run"
    timed = answered if own else []
    model = (
        f"hypotheses from {settings.hypotheses.file}" if isinstance(settings, ImportedSettings) else settings.model_name
    )
    return RunSummary(
        run_id=manifest.run_id,
        memory=settings.memory_name or "(unknown)",
        reads_gold=settings.is_ceiling,
        control=control,
        model=model,
        embedder=settings.embedder_spec,
        metrics=metrics,
        mean_prompt_tokens=fmean(answer.prompt_tokens for answer in timed) if timed else None,
        calls_per_question=fmean(answer.usage.calls for answer in timed) if timed else None,
        costs=run_costs(manifest, files.answer_lines, metrics, where.prepared_dir),
        latency=RunLatency(
            recall=latency([answer.recall_ms for answer in timed]),
            model=latency([one.latency_ms for one in timed if one.latency_ms is not None]),
            total=latency([one.total_ms for one in timed if one.total_ms is not None]),
        ),
        shortened=int(manifest.totals.get("shortened", 0)),
        undated=int(manifest.totals.get("undated", 0)),
        failed=int(manifest.totals.get("failed", 0)),
        status=manifest.status,
        latency_note=str(manifest.totals.get("load", {}).get("note", "")),
        gradings=gradings(files, metrics.judge),
        judge_check=judge_check,
        warnings=(
            *question_warnings(asked, timed, control=control is not None),
            *judge_warnings(
                metrics.judge, asked, settings.model_name, checked=judge_check is not None, refused=refused
            ),
            *recall_warnings(checks.asked_twice.of(settings.memory_asked, content)),
        ),
        part=asked.part,
        protocol_note=asked.protocol_note(metrics.judge.official),
        type_notes=tuple(asked.benchmark.notes_on(metrics.by_type)),
        not_reproducible=settings.marked_parts,
        memory_calls=memory_calls(manifest.totals),
        parts_told=settings.told_of_parts,
    )


class GradedRun(Struct, frozen=True):
    """One run as one judge graded it, with everything a comparison looks at."""

    files: RunFiles
    manifest: RunManifest
    summary: RunSummary
    answers: dict[str, Answer]
    """The answer that counts, by question id; questions without one are absent."""
    judgements: dict[str, Judgement]
    """The judgement that counts, by question id."""
    asked: RunQuestions
    """Questions as asked and their gold; shared by the runs on one data set."""
    checks: StoredChecks
    """Of judges and memories; shared by the runs of a command."""

    @property
    def metrics(self) -> Metrics:
        """The scores, made again from the files."""
        return self.summary.metrics

    @property
    def credits(self) -> dict[str, float | None]:
        """What every question earned, by its id; None: not evaluated, counts as 0."""
        return {question_id: credit(self.judgements.get(question_id)) for question_id in self.asked.questions}

    @property
    def haystacks(self) -> dict[str, str]:
        """Question id to haystack id."""
        return {question_id: question.haystack_id for question_id, question in self.asked.questions.items()}

    def check_of(self, judge: JudgeIdentity) -> StoredCheck | None:
        """The check that scores by a judge are corrected by; None where there is none."""
        return self.checks.judges.of(judge, self.asked.benchmark.name, self.manifest.dataset["content_sha256"])

    def corrected(self, metrics: Metrics) -> CheckedScore | None:
        """A score of these questions beside the check of its judge; None where there is none."""
        labels, content = metrics.judge.metric == "accuracy", self.manifest.dataset["content_sha256"]
        return checked_score(metrics.overall, self.check_of(metrics.judge), labels=labels, content_sha256=content)


def graded_run(
    files: RunFiles, asked: RunQuestions, metrics: Metrics, where: Folders, checks: StoredChecks | None = None
) -> GradedRun:
    """One run as a comparison takes it; arguments as of `summarise`."""
    checks = checks or StoredChecks(where.results_dir)
    summary = summarise(files, asked, metrics, where, checks)
    judgements = files.current_judgements(metrics.judge.id)
    return GradedRun(files, files.manifest, summary, files.answers, judgements, asked, checks)


def load_graded(
    run_ids: Sequence[str],
    where: Folders,
    *,
    judge: str | None = None,
    dataset: str | None = None,
    look_into_prompts: bool = False,
) -> list[GradedRun]:
    """Runs with the scores of one judge; each data set is opened once.

    Args:
        run_ids: runs that have been graded.
        where: the folders.
        judge: id of the judge, a beginning of it or its model, whatever fits one only; None: the official judge's
            scores where there are some, else the newest. Of several gradings by one judge it is the first.
        dataset: where the data is now, if it has moved.
        look_into_prompts: see `RunFiles`.

    Raises:
        HarnessError: no such run, it is not graded (by this judge) or holds rankings, or its data set is not
            there.
        IntegrityError: its files are not those that it left, or do not give the scores that are stored.
    """
    asked_of: dict[tuple[str, ...], RunQuestions] = {}
    graded = []
    checks = StoredChecks(where.results_dir)
    for run_id in run_ids:
        folder = run_folder(where.results_dir, run_id)
        files = RunFiles(folder, look_into_prompts=look_into_prompts)
        manifest = files.manifest
        if manifest.kind == "retrieval":
            raise HarnessError(
                f"Run '{run_id}' holds rankings, no graded answers",
                where=str(folder),
                fix="`longmemeval retrieval --memory A --memory B` shows rankings side by side",
            )
        chosen = _chosen_metrics(folder, read_run(files).metrics, judge)
        protocol = manifest.settings.official_protocol
        key = (manifest.dataset["content_sha256"], str(protocol), *manifest.question_ids)
        if key not in asked_of:
            asked_of[key] = RunQuestions(manifest, dataset_of(manifest, dataset, where))
        asked = asked_of[key].of(manifest)
        # The labels of other judges, and of later gradings by this one, are shown beside the score.
        made = {one.judge.id: recompute_scores(files, asked, one, grown=one is not chosen) for one in files.metrics}
        metrics = made[chosen.judge.id]
        graded.append(graded_run(files, asked, metrics, where, checks))
    return [graded[place] for place in controls_last([one.summary.control for one in graded])]


def _chosen_metrics(folder: Path, found: Sequence[Metrics], judge: str | None) -> Metrics:
    exact = [metrics for metrics in found if metrics.judge.id == judge]
    # Of several gradings by one judge the first is the score; a later one is shown where its own id asks for it.
    fitting = exact or [
        metrics
        for metrics in found
        if grading(metrics.judge) == 1
        and (judge is None or metrics.judge.id.startswith(judge) or metrics.judge.model == judge)
    ]
    if not found:
        raise HarnessError(
            f"Run '{folder.name}' is not graded", where=str(folder), fix=f"Run `longmemeval evaluate {folder.name}`"
        )
    if not fitting or (judge is not None and not exact and len(fitting) > 1):
        what = "several judges of that name" if fitting else "no judge of that name"
        ids = [metrics.judge.id for metrics in fitting or found]
        raise HarnessError(f"Run '{folder.name}' has {what}: '{judge}'", fix=nearest(str(judge), ids))
    official = [metrics for metrics in fitting if metrics.judge.official]
    return (exact or official or fitting)[-1]
