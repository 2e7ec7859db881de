"""Graded runs, read back from their files: the input of comparisons, reports and exports."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from longmemeval.core.on_demand import without_collector
from longmemeval.core.tables.showing import Showing
from longmemeval.core.text.figures import LEAST_DOLLARS, in_dollars
from longmemeval.embedding.registry import is_remote
from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.people import is_imported, is_person
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import grading
from longmemeval.llm.model_calls import CallSums
from longmemeval.measures.metrics import Latency, Metrics, Score, credit, latency
from longmemeval.memory.definition import Control
from longmemeval.records import Answer, Judgement, Usage, usage_of
from longmemeval.results.graded.judge_checks import (
    FOLDER,
    CheckedScore,
    JudgeChecks,
    RecallStability,
    StoredCheck,
    checked_score,
    control_of,
    controls_last,
)
from longmemeval.results.lines import (
    QUERY_EMBEDDINGS,
    QUERY_MODEL,
    RANKINGS,
    AnalysisTotals,
    Failures,
    Footprint,
    current_answers,
    failures_of,
    footprint_of,
    memory_calls,
)
from longmemeval.results.listing import ListedRun
from longmemeval.results.manifest import RunManifest, run_folder
from longmemeval.results.preparation import prepare_usage
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions, dataset_of
from longmemeval.results.scores.checked import read_run, recompute_scores
from longmemeval.results.scores.checks import refuse_unanswered
from longmemeval.results.scores.stored import ScoreCache
from longmemeval.results.scores.warnings import (
    Gradings,
    ScoreWarning,
    gradings,
    judge_warnings,
    language_warnings,
    question_warnings,
    recall_warnings,
)
from longmemeval.results.settings import AnswerSettings, ImportedSettings
from longmemeval.settings import Folders

# The cost of a run by kind of work: preparing, analysing the questions, answering, judging, and the total.


class Cost(Struct, frozen=True):
    """The cost of one kind of work. Cached calls are counted and cost nothing."""

    usd: float | None
    """US dollars; None unless they are known for every call."""
    known_usd: float = 0.0
    """Cost of the calls whose price is known: a lower bound."""
    calls: int | None = None
    """Number of calls; None where even that is unknown, like the fields below."""
    cached_calls: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    unpriced_calls: int | None = None
    """Number of calls without a known price: with any, the true cost is higher than `known_usd`."""
    estimated_calls: int | UnsetType = UNSET
    """Number of calls whose tokens we counted, since the server did not; absent if none."""

    @property
    def usage(self) -> Usage | None:
        """The calls that are known; None if none are."""
        if self.calls is None:
            return None
        tokens = self.prompt_tokens or 0, self.completion_tokens or 0
        unpriced = self.unpriced_calls or 0
        return Usage(self.calls, self.cached_calls or 0, *tokens, self.known_usd, unpriced, self.estimated_calls)

    @property
    def is_partly_known(self) -> bool:
        """True if all calls are known, but the price of some of them only."""
        return self.usd is None and bool(self.unpriced_calls) and self.known_usd > 0


class RunCosts(Struct, frozen=True):
    """The costs of a run as one judge graded it."""

    prepare: Cost
    """Cost of the fixture parts that the run reads: paid once, shared by all runs that read them."""
    question_analysis: Cost
    """Cost of a chat model's analysis of the questions, of their embedding, and of the memory's own model calls
    while it was searched."""
    answers: Cost
    """Cost of all calls of all questions, including answers that failed and were repeated."""
    judge: Cost
    """Cost of all calls of this judge on these answers."""
    total: Cost


def cost_of(usage: Usage | None) -> Cost:
    """Return the cost of model calls; for None, an unknown cost."""
    if usage is None:
        return Cost(None)
    calls, cached, prompt, completion, known, unpriced, estimated, *_ = structs.astuple(usage)
    cost = Cost(usage.dollars, known, calls, cached, prompt, completion, unpriced, estimated)
    return cost if usage.has_tokens else structs.replace(cost, prompt_tokens=None, completion_tokens=None)


def run_costs(
    manifest: RunManifest, records: Sequence[Answer], metrics: Metrics | None, prepared_dir: Path
) -> RunCosts:
    """Return the costs of a run.

    Args:
        records: all lines of its answers.
        metrics: its scores by one judge; None: without judging.
        prepared_dir: folder of the preparations.
    """
    own = manifest.kind == "run"
    prepare = prepare_usage(manifest, prepared_dir)
    analysis = _question_usage(manifest, len(current_answers(records))) if own else None
    answers = usage_of(records) if own else None
    judge = Usage() if metrics is None else None if is_imported(metrics.judge) else metrics.usage
    return costs_of(prepare, analysis, answers, judge)


def costs_of(
    prepare: Usage | None, question_analysis: Usage | None, answers: Usage | None, judge: Usage | None
) -> RunCosts:
    """Return the costs of each kind of work and their sum; None means unknown."""
    prepared, analysed, answered, judged = map(cost_of, (prepare, question_analysis, answers, judge))
    return RunCosts(prepared, analysed, answered, judged, sum_costs([prepared, analysed, answered, judged]))


def sum_costs(parts: Sequence[Cost]) -> Cost:
    """Return the sum of the known costs; its dollars, and its calls without a price, are None unless all are known.

    So are its tokens if a part has calls of unknown tokens.
    """
    known = cost_of(sum((usage for cost in parts if (usage := cost.usage)), Usage()))
    if any(cost.calls is not None and cost.prompt_tokens is None for cost in parts):
        known = structs.replace(known, prompt_tokens=None, completion_tokens=None)
    whole = all(cost.unpriced_calls is not None for cost in parts)
    return known if whole else structs.replace(known, usd=None, unpriced_calls=None)


def cost_text(cost: Cost, share: float = 1.0) -> str:
    """Return a cost in US dollars, or `share` of it: `≥` if some calls have no known price, a dash if unknown."""
    if not cost.is_partly_known:
        return in_dollars(None if cost.usd is None else cost.usd * share)
    known = cost.known_usd * share
    return f"≥ {in_dollars(known)}" if known >= LEAST_DOLLARS else "> $0"


def _question_usage(manifest: RunManifest, answered: int) -> Usage | None:
    """Return the usage of analysing and embedding the questions; None if a session ended without recording it."""
    settings, totals, usage = manifest.settings, manifest.totals, Usage()
    if isinstance(settings, AnswerSettings) and settings.query_model:
        analyses = msgspec.convert(totals.get(QUERY_MODEL, {}), AnalysisTotals)
        if analyses.questions < answered:
            return None
        usage += analyses.usage
    if is_remote(settings.embedder_spec):
        if QUERY_EMBEDDINGS not in totals:
            return None
        usage += msgspec.convert(totals[QUERY_EMBEDDINGS], Usage)
    uncounted = any("service" in stats and "model_calls" not in stats for stats in settings.parts.values())
    return None if uncounted else usage + memory_calls(totals)


class RunLatency(Struct, frozen=True):
    """Milliseconds per answered question; None for answers of another system.

    The percentiles of the total are those of the questions' totals, not sums of percentiles.
    """

    recall: Latency
    """Time until the memory system had found what the model should see."""
    model: Latency
    """Time in model calls, including retries and waiting."""
    total: Latency
    """Sum of both: the time a user waits for the answer."""


def latency_of(answers: Sequence[Answer]) -> RunLatency:
    """Return the latency of answers of this harness; leave out those that failed."""
    return RunLatency(
        recall=latency([answer.recall_ms for answer in answers]),
        model=latency([answer.latency_ms for answer in answers if answer.latency_ms is not None]),
        total=latency([total for answer in answers if (total := answer.total_ms) is not None]),
    )


def recalls_of(answers: Mapping[str, Answer]) -> dict[str, tuple[str, ...]]:
    """Return the ids of the messages that reached the prompt, by question id."""
    return {question_id: answer.recall_ids for question_id, answer in answers.items()}


class GradedRun(Struct, frozen=True):
    """One run in one record: its settings, its score by one judge, its cost."""

    run_id: str
    memory: str
    reads_gold: bool
    control: Control | None
    """The kind of control, if it is not a memory system."""
    model: str
    embedder: str
    """Spec of the embedder; empty if no vectors were read."""
    metrics: Metrics
    mean_prompt_tokens: float | None
    """Mean tokens of all prompts as sent per answered question; None for answers of another system."""
    calls_per_question: float | None
    """Mean model calls per answered question; None for answers of another system."""
    costs: RunCosts
    latency: RunLatency
    shortened: int
    failed: int
    failures: Failures = Failures()
    """The failed questions and their commonest error."""
    status: str = "completed"
    """Status in the manifest."""
    latency_note: str = ""
    """Sentence on why the latencies are not those of the model alone; empty if they are."""
    gradings: Gradings | None = None
    """The gradings of these answers by this judge, if there are several: the first is the score."""
    judge_check: CheckedScore | None = None
    """Rates of the judge and the score corrected for them, if the judge was checked on the benchmark."""
    warnings: tuple[ScoreWarning, ...] = ()
    """Reasons why the score is worth less than it looks."""
    part: str = ""
    """Number of questions out of the total, and how they were chosen; empty for the whole dataset."""
    type_notes: tuple[str, ...] = ()
    """The benchmark's notes on the question types shown."""
    not_reproducible: tuple[str, ...] = ()
    """Parts read that would differ if they were prepared again."""
    truncated: int = 0
    """Number of answers to prompts that the server seems to have truncated."""
    reasoning_tokens: float | None = None
    """Tokens of reasoning in all answers and judgements, by the servers' counts; None if no server reports any.

    For repeats the mean.
    """
    undated: int = 0
    """Number of answers that were given from items whose date the memory does not state."""
    parameters: Mapping[str, Any] = {}
    """Parameters of the memory."""
    memory_calls: CallSums = CallSums()
    """The memory's own model calls while it was searched."""
    footprint: Footprint = Footprint()
    """Disk space of the memory, and main memory of its own processes."""
    parts_told: dict[str, dict[str, Any]] = {}
    """Statistics of the parts that are not reproducible, by part name; see `PartInfo.stats`."""
    protocol_note: str = ""
    """The consequence of the benchmark's own protocol, if the run followed it, for these scores; empty without one."""


def reasoning_tokens(lines: Iterable[Answer | Judgement]) -> int | None:
    """Return the tokens of reasoning that lines of journals report; None if none does."""
    return sum(line.asked.reasoning_tokens for line in lines if line.asked) or None


class StoredChecks:
    """Results of other commands that scores are shown with; each file is read once.

    Args:
        results_dir: folder of the runs.
    """

    def __init__(self, results_dir: Path) -> None:
        self.judges = JudgeChecks(results_dir)
        self.recall_stability = RecallStability(results_dir)


def summarise(
    files: RunFiles, asked: RunQuestions, metrics: Metrics, folders: Folders, checks: StoredChecks | None = None
) -> GradedRun:
    """Return the summary of one run.

    Args:
        files: files of the run, checked.
        asked: its questions and their gold.
        metrics: its scores by one judge.
        folders: the folders; the journal of a preparation has its cost.
        checks: checks of judges and memories, shared with other runs; None: read for this run.
    """
    manifest, settings = files.manifest, files.manifest.settings
    checks = checks or StoredChecks(folders.results_dir)
    content, benchmark = manifest.dataset["content_sha256"], asked.benchmark.name
    stored = checks.judges.of(metrics.judge, benchmark, content)
    labels = metrics.judge.metric == "accuracy"
    judge_check = checked_score(metrics.overall, stored, labels=labels, content_sha256=content)
    refused = [] if judge_check and not judge_check.other_data else checks.judges.refused(metrics.judge, benchmark)
    control = control_of(settings)
    answered = [answer for answer in files.answers.values() if answer.status == "ok"]
    timed = answered if manifest.kind == "run" else []
    file = settings.hypotheses.file if isinstance(settings, ImportedSettings) else ""
    model = settings.model_name or (f"hypotheses from {file}" if file else "")
    return GradedRun(
        run_id=manifest.run_id,
        memory=settings.memory_name or "(unknown)",
        reads_gold=settings.reads_gold,
        control=control,
        model=model,
        embedder=settings.embedder_spec,
        metrics=metrics,
        mean_prompt_tokens=fmean(answer.prompt_tokens for answer in timed) if timed else None,
        calls_per_question=fmean(answer.usage.calls for answer in timed) if timed else None,
        costs=run_costs(manifest, files.answer_lines, metrics, folders.prepared_dir),
        latency=latency_of(timed),
        shortened=int(manifest.totals.get("shortened", 0)),
        truncated=int(manifest.totals.get("truncated", 0)),
        reasoning_tokens=reasoning_tokens((*files.answer_lines, *files.judgements(metrics.judge.id))),
        undated=int(manifest.totals.get("undated", 0)),
        failed=int(manifest.totals.get("failed", 0)),
        failures=failures_of(files.answers.values(), len(manifest.question_ids)),
        status=manifest.status,
        latency_note=str(manifest.totals.get("load", {}).get("note", "")),
        gradings=gradings(files, metrics.judge),
        judge_check=judge_check,
        warnings=(
            *question_warnings(asked, timed, control=control is not None),
            *judge_warnings(
                metrics.judge, asked, settings.model_name, checked=judge_check is not None, refused=refused
            ),
            *language_warnings(metrics.judge, asked, answered),
            *recall_warnings(checks.recall_stability.of(settings.memory, content)),
        ),
        part=asked.part,
        protocol_note=asked.protocol_note(metrics.judge.official),
        type_notes=tuple(asked.benchmark.notes_on(metrics.by_type)),
        not_reproducible=settings.not_reproducible,
        memory_calls=memory_calls(manifest.totals),
        footprint=footprint_of(manifest.totals),
        parts_told=settings.parts,
        parameters=settings.memory.parameters if settings.memory else {},
    )


class Evaluation(Struct, Showing, frozen=True):
    """One run as one judge graded it: the result of `evaluate`, and the input of comparisons, reports and exports."""

    files: RunFiles
    """The files of the run, including what this command wrote."""
    manifest: RunManifest
    summary: GradedRun
    answers: dict[str, Answer]
    """Answers by question id; unanswered questions are absent."""
    judgements: dict[str, Judgement]
    """The judgement that counts, by question id."""
    asked: RunQuestions
    """The questions as they were put, and their gold; shared by the runs on one dataset."""
    checks: StoredChecks
    """Checks of judges and memories; shared by the runs of a command."""
    folders: Folders
    grading: Metrics
    """The score by the grading that was made or added to last: that of `metrics`, except when judging again."""
    newly_judged: int = 0
    failed: int = 0
    """Number of questions not evaluated because an answer or a judge's call is missing, if this command graded the run;
    without those that the rules leave out."""

    def __repr__(self) -> str:
        (low, high), judge = self.interval, self.metrics.judge
        score = f"{judge.metric} {self.score:.1%} [{low:.1%}, {high:.1%}] of {self.metrics.overall.n} questions"
        return f"Evaluation({self.id!r}, {score}, by {judge.id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evaluation) and self._figures == other._figures

    def __hash__(self) -> int:
        return hash((self.id, self.metrics.judge.id))

    @property
    def _figures(self) -> tuple[object, ...]:
        return self.manifest, self.summary, self.grading, self.answers, self.judgements

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.manifest.run_id

    @property
    def metrics(self) -> Metrics:
        """The scores by the judge's first grading of these answers, recomputed from the files."""
        return self.summary.metrics

    @property
    def score(self) -> float:
        """Accuracy, or the mean score of a judge of scores, between 0 and 1; not evaluated questions count as 0."""
        return self.metrics.overall.accuracy

    @property
    def interval(self) -> tuple[float, float]:
        """95% CI of `score`."""
        return self.metrics.overall.interval

    @property
    def by_type(self) -> dict[str, Score]:
        """Score by question type."""
        return self.metrics.by_type

    @property
    def wrong(self) -> list[str]:
        """Ids of the questions without full credit, including those not evaluated, in their order."""
        return [question_id for question_id, value in self.credits.items() if value is None or value < 1]

    @property
    def recalls(self) -> dict[str, tuple[str, ...]]:
        """Ids of the messages that reached the prompt, by question id."""
        return recalls_of(self.answers)

    @property
    def cost(self) -> RunCosts:
        """Cost of preparing, analysing questions, answering and judging in US dollars; None: unknown."""
        return self.summary.costs

    @property
    def latency(self) -> RunLatency:
        """Milliseconds of recall, model and both."""
        return self.summary.latency

    @property
    def credits(self) -> dict[str, float | None]:
        """Credit of every question, by id; None: not evaluated, counts as 0."""
        return {question_id: credit(self.judgements.get(question_id)) for question_id in self.asked.questions}

    @property
    def haystacks(self) -> dict[str, str]:
        """Haystack, or other group that is resampled whole, by question id."""
        return self.asked.units

    def check_of(self, judge: JudgeIdentity) -> StoredCheck | None:
        """Return the check by which scores of a judge are corrected; None without one."""
        return self.checks.judges.of(judge, self.asked.benchmark.name, self.manifest.dataset["content_sha256"])

    def corrected(self, metrics: Metrics) -> CheckedScore | None:
        """Return a score of these questions with the check of its judge; None without one."""
        labels, content = metrics.judge.metric == "accuracy", self.manifest.dataset["content_sha256"]
        return checked_score(metrics.overall, self.check_of(metrics.judge), labels=labels, content_sha256=content)


def graded_run(
    files: RunFiles,
    asked: RunQuestions,
    metrics: Metrics,
    folders: Folders,
    checks: StoredChecks | None = None,
    grading: Metrics | None = None,
) -> Evaluation:
    """Return one run as comparisons use it; arguments as for `summarise`.

    Args:
        grading: the grading that this command made; None: that of `metrics`.
    """
    checks = checks or StoredChecks(folders.results_dir)
    summary = summarise(files, asked, metrics, folders, checks)
    judgements = files.current_judgements(metrics.judge.id)
    return Evaluation(
        files, files.manifest, summary, files.answers, judgements, asked, checks, folders, grading or metrics
    )


@without_collector()
def load_graded(
    run_ids: Sequence[str],
    folders: Folders,
    *,
    judge: str | None = None,
    dataset: str | None = None,
    look_into_prompts: bool = False,
    remembered: ScoreCache | None = None,
) -> list[Evaluation]:
    """Read runs with their scores by one judge; each dataset is opened once.

    Args:
        run_ids: ids of graded runs.
        judge: id of the judge, the start of its id, or its model, if it fits one judge only; None: the official judge's
            scores if there are any, else the newest that is not a person's. Of several gradings by one judge it is the
            first.
        dataset: path or name of the data, if it has moved.
        look_into_prompts: see `RunFiles`.
        remembered: cache of checks and scores of unchanged files; None: compute all of them.

    Raises:
        HarnessError: no such run, it has no answers, is not graded (by this judge) or holds rankings, or its data
            set is missing.
        IntegrityError: its files have been changed since the run, or do not give the stored scores.
    """
    questions_by_key: dict[tuple[str, ...], RunQuestions] = {}
    remembered, checks, graded = remembered or ScoreCache(), StoredChecks(folders.results_dir), []
    for run_id in run_ids:
        folder = run_folder(folders.results_dir, run_id)
        files = RunFiles(folder, look_into_prompts=look_into_prompts)
        manifest = files.manifest
        if manifest.kind == "retrieval":
            raise HarnessError(
                f"Run '{run_id}' holds rankings, not graded answers",
                where=str(folder),
                fix="`longmemeval retrieval --memory A --memory B` shows rankings side by side",
            )
        remembered.of(bool, partial(files.key_of, "files"), partial(_is_intact, files))
        refuse_unanswered(files)
        chosen = _chosen_metrics(files, judge)
        protocol = manifest.settings.official_protocol
        key = (manifest.dataset["content_sha256"], str(protocol), *manifest.question_ids)
        if key not in questions_by_key:
            questions_by_key[key] = RunQuestions(manifest, dataset_of(manifest, dataset, folders))
        asked = questions_by_key[key].of(manifest)
        scores_key = partial(files.key_of, "scores", asked.dataset.sha256, chosen.judge.id)
        metrics = remembered.of(Metrics, scores_key, partial(_recomputed, files, asked, chosen))
        graded.append(graded_run(files, asked, metrics, folders, checks))
    return controls_last(graded, lambda run: run.summary.control)


def _is_intact(files: RunFiles) -> bool:
    """Return True.

    Raises:
        IntegrityError: as for `read_run`.
    """
    return bool(read_run(files))


def _recomputed(files: RunFiles, asked: RunQuestions, chosen: Metrics) -> Metrics:
    """Return the scores of the chosen judge; the labels of others, and later gradings, are shown with it."""
    scores = {old.judge.id: recompute_scores(files, asked, old, grown=old is not chosen) for old in files.metrics}
    return scores[chosen.judge.id]


def _chosen_metrics(files: RunFiles, judge: str | None) -> Metrics:
    folder, scores = files.folder, files.metrics
    exact = [metrics for metrics in scores if metrics.judge.id == judge]
    # Of several gradings by one judge the first is the score; a later one must be named by its own id.
    fitting = exact or [
        metrics
        for metrics in scores
        if grading(metrics.judge) == 1
        and (judge is None or metrics.judge.id.startswith(judge) or metrics.judge.model == judge)
    ]
    if judge is None:
        # People label only some of the answers: next to another judge, their score must be named.
        fitting = [metrics for metrics in fitting if not is_person(metrics.judge)] or fitting
    if not scores:
        offline = " --judge offline/lexical" if files.manifest.settings.model_name.startswith("offline/") else ""
        fix = f"Run `longmemeval evaluate {folder.name}{offline}`"
        raise HarnessError(f"Run '{folder.name}' is not graded", where=str(folder), fix=fix)
    if not fitting or (judge is not None and not exact and len(fitting) > 1):
        what = "several judges of that name" if fitting else "no judge of that name"
        ids = [metrics.judge.id for metrics in fitting or scores]
        raise HarnessError(f"Run '{folder.name}' has {what}: '{judge}'", fix=nearest(str(judge), ids))
    official = [metrics for metrics in fitting if metrics.judge.official]
    return (exact or official or fitting)[-1]


# Warnings of the scores in a list of runs.

_LOOKED_AT = 30
"""The longest list whose scores are searched for warnings."""


class ListWarnings(Struct, frozen=True):
    """The warnings of listed scores."""

    by_run: dict[str, tuple[ScoreWarning, ...]]
    """Warnings of each graded run that was looked at, by its id."""
    unknown: int
    """Number of graded runs that were not looked at, or cannot be."""


def warnings_of(listed: Sequence[ListedRun], folders: Folders) -> ListWarnings:
    """Return the warnings of the first score of each graded run.

    They depend on the answers, questions and checks of judges, so every run is read once, and again when one of its
    files has changed; the runs of long lists are not.
    """
    graded = [entry for entry in listed if entry.scores and entry.kind != "retrieval"]
    looked_at, found, remembered = graded if len(graded) <= _LOOKED_AT else [], {}, ScoreCache.among(folders)
    checks = _state_of(path for pattern in _CHECKS for path in folders.results_dir.glob(pattern)) if looked_at else ""
    for entry in looked_at:
        judge, folder = entry.scores[0].judge, folders.results_dir / entry.run
        key = partial(tuple[str, ...], ("list warnings", entry.run, judge, checks, _state_of(folder.rglob("*"))))
        look = partial(_look_at, entry.run, judge, folders, remembered)
        with suppress(HarnessError, OSError):  # Its data may have moved: the list does without it.
            found[entry.run] = remembered.of(tuple[ScoreWarning, ...], key, look)
    return ListWarnings(found, len(graded) - len(found))


_CHECKS = (f"{FOLDER}/*/*/*", f"*/{RANKINGS}")
"""Files that say how far judges and memories can be trusted: each may warn of other runs."""


def _state_of(paths: Iterable[Path]) -> str:
    """Return what changes when one of these files does."""
    return repr([(str(path), (stat := path.stat()).st_mtime_ns, stat.st_size) for path in sorted(paths)])


def _look_at(run_id: str, judge: str, folders: Folders, remembered: ScoreCache) -> tuple[ScoreWarning, ...]:
    (run,) = load_graded([run_id], folders, judge=judge, remembered=remembered)
    return tuple(run.summary.warnings)
