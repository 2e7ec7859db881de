"""Try a claim: make the run that it describes, grade it, and compare the result with the claimed figure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from longmemeval.api.data import Data, Memory
from longmemeval.api.run import PREPARED_FOR, run
from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.benchmarks.retrieval_protocols import OfficialRanking
from longmemeval.core.defaults import CONCURRENCY
from longmemeval.core.files import safe_name, sha256_bytes
from longmemeval.core.secrets.redaction import public_url
from longmemeval.core.text.words import differences
from longmemeval.errors import DataError, HarnessError
from longmemeval.judges.question_types import ABSTENTION
from longmemeval.llm.costs import SPENDING, limit_beside
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.measures.notation import Mean
from longmemeval.pipeline.claims.catalogue import Claim, ClaimSettings, claim_named
from longmemeval.pipeline.claims.state import missing_data, place_of, state_of
from longmemeval.pipeline.claims.verdict import Attempt, Measured, verdict_on, verdicts_on_groups
from longmemeval.pipeline.evaluate.evaluate import evaluate
from longmemeval.pipeline.options import EvaluateOptions, PrepareOptions, RetrievalOptions
from longmemeval.pipeline.prepare.prepare import PrepareReport, prepare
from longmemeval.pipeline.retrieval.retrieve import retrieve
from longmemeval.pipeline.run.estimate import RunEstimate, estimate_run
from longmemeval.pipeline.run.plan import RunOptions, RunPlan, plan_run
from longmemeval.reading.options import ReadingOptions
from longmemeval.settings import Folders


@dataclass(frozen=True)
class Changes:
    """Changes that an attempt makes to the claim; each is a deviation."""

    sample: int | None = None
    seed: int = 0
    model: str | None = None
    judge: str | None = None
    dataset: str | Path | None = None
    """Location of the data, if it is not in the data folder or has another name."""


class _Scores(Struct, frozen=True):
    """The measured scores."""

    run: str
    whole: Measured
    groups: dict[str, Measured]


class ClaimTrial:
    """A claim with everything needed to try it.

    Args:
        claim: the claim or its id.
        changes: what the attempt changes.
        model_options: connection options of models.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the claim is unknown, cannot be tried, or its data is missing.
    """

    def __init__(
        self,
        claim: Claim | str,
        changes: Changes = Changes(),
        *,
        model_options: ModelOptions = ModelOptions(),
        folders: Folders | None = None,
    ) -> None:
        self.claim = claim_named(claim) if isinstance(claim, str) else claim
        self.folders = folders or Folders()
        self._changes, self._connection = changes, model_options
        state = state_of(self.claim, self.folders.data_dir)
        settings = self.claim.settings
        if settings is None or state.cannot:
            raise HarnessError(f"The claim '{self.claim.id}' cannot be tried: {state.cannot}", where=self.claim.id)
        named = {"model": changes.model, "judge": changes.judge}
        self.settings = settings.model_copy(update={name: value for name, value in named.items() if value})
        self.data = self._chosen(settings)
        self.memory = Memory(self.settings.memory, **self.settings.parameters)

    def estimate(self) -> RunEstimate:
        """Estimate what trying the claim costs; nothing is called or written. Rankings have no stage of answers."""
        making = self._prepare_options()
        if not self.settings.measure:
            return estimate_run(
                replace(self._run_plan(), configuration=self.memory.configuration),
                judge=self.settings.judge or None,
                prepare_options=making,
            )
        count, notes = len(self.data), ("nothing is answered or graded: the claim is about what is found",)
        ranked = RunEstimate(questions=count, left=count, stages=(), replies="", disk_bytes=None, notes=notes)
        return structs.replace(ranked, preparation=None if self._own_corpus else self._prepare(making, dry_run=True))

    def attempt(
        self,
        *,
        max_cost: float | None = None,
        concurrency: int = CONCURRENCY,
        tell: Callable[[str], None] | None = None,
    ) -> Attempt:
        """Prepare what is missing, answer, grade and compare; finished work is reused.

        Args:
            max_cost: the most that preparing, answering and grading may cost, US dollars, all starts together.
            concurrency: maximum concurrent model calls.
            tell: receives notes.

        Raises:
            HarnessError: as for `run`, `evaluate` and `retrieve`.
        """
        scores = self._ranked(max_cost, tell) if self.settings.measure else self._answered(max_cost, concurrency, tell)
        return Attempt(
            claim=self.claim.id,
            run=scores.run,
            verdict=verdict_on(self.claim, scores.whole),
            deviations=(*self._differences(scores.whole.n), *self.claim.deviations),
            assumed=tuple(f"{what}: {taken}" for what, taken in self.claim.assumed.items()),
            groups=verdicts_on_groups(self.claim, scores.whole, scores.groups),
            not_measured=tuple(name for name in self.claim.by_group if name not in scores.groups),
        )

    def _chosen(self, settings: ClaimSettings) -> Data:
        """Return the data with the claim's questions, or a sample of them."""
        if not self._changes.dataset and (need := next(missing_data(settings, self.folders.data_dir), None)):
            raise DataError(f"The dataset '{need.name}' is missing", where=str(self.folders.data_dir), fix=need.fix)
        place = self._changes.dataset or place_of(settings, self.folders.data_dir)
        data = Data(load_dataset(place, self.folders.data_dir))
        if settings.types:
            data = data.where(type=settings.types)
        if settings.haystacks:
            about = [question.question_id for question in data.questions if question.haystack_id in settings.haystacks]
            data = data.where(question_id=about)
        count = self._changes.sample
        return data if count is None else data.sample(count, seed=self._changes.seed)

    def _answered(self, max_cost: float | None, concurrency: int, tell: Callable[[str], None] | None) -> _Scores:
        done = run(
            self.data,
            self.memory,
            self.settings.model,
            max_cost=max_cost,
            concurrency=concurrency,
            options=structs.replace(self._run_plan().options, tell=tell),
            prepare_options=self._prepare_options(),
            folders=self.folders,
        )
        accounts = (done.files.folder / name for name in (SPENDING, PREPARED_FOR))
        graded = evaluate(
            done.id,
            options=EvaluateOptions(
                judge=self.settings.judge or None,
                model_options=self._connection.deciding(self.settings.judge_options),
                concurrency=concurrency,
                spending=limit_beside(None if max_cost is None else SpendingLimit(max_cost), accounts),
                tell=tell,
            ),
            folders=self.folders,
        )
        scores = {**graded.by_type, **({ABSTENTION: graded.metrics.abstention} if graded.metrics.abstention else {})}
        groups = {name: Measured(score.accuracy, score.interval, score.n) for name, score in scores.items()}
        return _Scores(done.id, Measured(graded.score, graded.interval, graded.metrics.overall.n), groups)

    def _ranked(self, max_cost: float | None, tell: Callable[[str], None] | None) -> _Scores:
        settings, making = self.settings, self._prepare_options()
        limit = None if max_cost is None else SpendingLimit(max_cost)
        if not self._own_corpus:
            self._prepare(making, spending=limit)
        report = retrieve(
            self.data.dataset,
            [self.memory.configuration],
            selection=self.data.selection,
            options=RetrievalOptions(
                protocol=settings.protocol,
                granularity=settings.granularity,
                measures=() if settings.protocol == "official" else (settings.measure,),
                prepared=making.name,
                embedder=making.embedder if self._own_corpus else None,
                run_id=self._run_id(),
                query_model=settings.query_model or None,
                model_options=self._connection,
                spending=limit,
                tell=tell,
            ),
            folders=self.folders,
        )
        ranked, name = report.runs[0], settings.measure
        results = [result for result in ranked.results if name in result.measures]
        # An official protocol may score over several denominators: that of the claim, if it is among them.
        results.sort(key=lambda result: result.measures[name].n + result.measures[name].undefined != self.claim.n)
        whole = _measured(results[0].measures[name]) if results else None
        if whole is None:
            raise HarnessError(f"The rankings have no {name}", where=ranked.run_id)
        groups = {group: found for group, means in results[0].by_type.items() if (found := _measured(means[name]))}
        return _Scores(ranked.run_id, whole, groups)

    @property
    def _own_corpus(self) -> bool:
        """True if an official protocol ranks texts of its own, which need no preparation."""
        official = benchmark_of(self.data.dataset).official_retrieval
        return self.settings.protocol == "official" and isinstance(official, OfficialRanking)

    def _prepare(self, making: PrepareOptions, **changes: object) -> PrepareReport:
        return prepare(
            self.data.dataset,
            [self.memory.configuration],
            selection=self.data.selection,
            options=making.replaced(**changes),
            folders=self.folders,
        )

    def _run_id(self) -> str:
        """Return the id of the rankings: readable, with a hash of all that decides them; measures share a run."""
        ids = [question.question_id for question in self.data.questions]
        without = {"measure", "model_options", "judge_options"} | (
            set() if self.settings.query_model else {"query_model"}
        )
        decisive = [
            self.settings.model_dump(exclude=without),
            self.data.dataset.content_sha256,
            ids,
        ]
        digest = sha256_bytes(msgspec.json.encode(decisive, order="sorted"))[:8]
        name = safe_name(f"claim_{self.data.name}_{self.memory.name}".replace("/", "-").replace(":", "-"))
        return f"{name.replace('%', '-').replace('~', '-')[:100]}_{digest}"

    def _prepare_options(self) -> PrepareOptions:
        """Return the options of `prepare`: with a name of its own unless all are defaults."""
        options = self.settings.prepare
        name = f"claims-{sha256_bytes(msgspec.json.encode(options, order='sorted'))[:8]}" if options else "default"
        return PrepareOptions(name=name, model_options=self._connection, **options)

    def _run_plan(self) -> RunPlan:
        """Return the plan of the run, as `run` reads them from a command line."""
        return plan_run(
            str(self._changes.dataset or place_of(self.settings, self.folders.data_dir)),
            self.settings.memory,
            self.settings.model,
            parameters=(),
            selection=self.data.selection,
            reading=ReadingOptions(**self.settings.reading),
            options=RunOptions(
                protocol=self.settings.protocol,
                prepared=self._prepare_options().name,
                model_options=self._connection.deciding(self.settings.model_options),
                query_model=self.settings.query_model or None,
            ),
            folders=self.folders,
        )

    def _differences(self, n: int) -> list[str]:
        """Return the differences from the claim that the caller requested, a line each."""
        claimed = _decisive(self.claim.settings or self.settings, self.claim.n, None)
        here = _decisive(self.settings, n if self.claim.n else None, self._connection.api_base)
        known = self.claim.catalogue
        if known and self.data.name not in known:
            claimed, here = claimed | {"data": " or ".join(known)}, here | {"data": self.data.name}
        return differences(claimed, here, template="claimed {old}, here {new}")


def _measured(found: Mean) -> Measured | None:
    return None if found.mean is None else Measured(found.mean, found.interval or (0.0, 1.0), found.n)


def _decisive(settings: ClaimSettings, n: int | None, address: str | None) -> dict[str, Any]:
    return {
        "model": settings.model,
        "judge": settings.judge,
        "questions": n,
        "models served at": public_url(address) if address else "their providers",
    }


def try_claim(
    claim: Claim | str,
    *,
    sample: int | None = None,
    seed: int = 0,
    model: str | None = None,
    judge: str | None = None,
    dataset: str | Path | None = None,
    max_cost: float | None = None,
    concurrency: int = CONCURRENCY,
    model_options: ModelOptions = ModelOptions(),
    folders: Folders | None = None,
) -> Attempt:
    """Reproduce a published figure: prepare, answer and grade as its source did, and return the verdict.

    Args:
        claim: id of the claim, as in `longmemeval claims list`.
        sample: only this many of its questions, stratified by type.
        seed: seed of the sample.
        model: another answering model, noted as a deviation.
        judge: another judge, noted as a deviation.
        dataset: location of the data, if it is not in the data folder.
        max_cost: maximum cost of preparing, answering and grading in US dollars; None: no limit.
        concurrency: maximum concurrent model calls.
        model_options: connection to the models.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the claim is unknown, cannot be tried, or its data is missing.
        SpendingLimitError, EndpointDownError: the work stopped early; the same call continues it.
    """
    changes = Changes(sample, seed, model, judge, dataset)
    trial = ClaimTrial(claim, changes, model_options=model_options, folders=folders)
    return trial.attempt(max_cost=max_cost, concurrency=concurrency)
