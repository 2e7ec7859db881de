"""Check a judge: plant answers of known truth, have the judge grade them and store its error rates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.registry import default_judge_of, load_judge
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.core.event_loop import complete
from longmemeval.core.files import sha256_bytes, write_atomic
from longmemeval.core.journal import Journal, read_journal
from longmemeval.core.text_files import UnreadableError
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.judges.definition import compares_words, rules_of
from longmemeval.judges.plants.judged import judged_plants
from longmemeval.judges.plants.planting import Ground, Plant, Planting
from longmemeval.judges.protocol import Judge, JudgeIdentity
from longmemeval.llm.costs import SPENDING, Account
from longmemeval.llm.protocol import ChatModel, LimitedChatModel
from longmemeval.llm.registry import load_chat_model
from longmemeval.llm.tokens import CallCounter
from longmemeval.measures.plant_rates import judge_rates, measured_rates
from longmemeval.pipeline.estimate.judging import judge_calls, judge_stage
from longmemeval.pipeline.estimate.stages import Pace, Stage
from longmemeval.pipeline.options import CheckOptions
from longmemeval.pipeline.progress import progress
from longmemeval.pipeline.workers import Outcomes, WatchedChatModel, run_bounded
from longmemeval.records import Gold, Judgement, Question, Usage, usage_of
from longmemeval.results.graded.judge_checks import (
    CHECK,
    FORMAT,
    JUDGEMENTS,
    PLANTS,
    JudgeCheck,
    StoredCheck,
    check_folder,
    encoded,
)
from longmemeval.results.lines import latest_judgements
from longmemeval.results.selection import Selection, select
from longmemeval.settings import Folders
from longmemeval.statistics.misclassification import MeasuredRates

# The material of a dataset's plants, and the way its benchmark makes them.


def encoded_plants(plants: Sequence[Plant]) -> bytes:
    """Return the bytes of a file of plants."""
    return b"".join(msgspec.json.encode(plant) + b"\n" for plant in plants)


def planting_of(benchmark: Benchmark) -> Planting:
    """Return the way in which a benchmark makes plants.

    Raises:
        HarnessError: the benchmark does not define it.
    """
    if benchmark.planting is None:
        raise HarnessError(
            f"Judges cannot be checked on {benchmark.title}: it defines no test answers",
            where=f"benchmark {benchmark.name}",
            fix="Give its `Benchmark` a `planting` (docs/add-a-benchmark.md)",
        )
    return benchmark.planting


def plants_of(dataset: Dataset, ground: Ground, questions: Sequence[Question], judge: JudgeIdentity) -> Iterator[Plant]:
    """Yield the plants that a judge is checked on: made by rules and, if it needs them, labelled by hand."""
    yield from planting_of(benchmark_of(dataset)).plants(ground, questions)
    if compares_words(judge):
        yield from judged_plants(dataset.path, ground.golds, {question.question_id for question in questions})


def ground_of(dataset: Dataset, seed: int) -> Ground:
    """Return the material of a dataset's plants.

    Args:
        dataset: everything but its haystacks is read.
        seed: another seed chooses other numbers, names and questions.

    Raises:
        DataError: the data do not match their format.
    """
    questions = tuple(dataset.questions())
    return Ground(
        questions=questions,
        golds={question.question_id: dataset.gold(question.question_id) for question in questions},
        ability=benchmark_of(dataset).types.ability_of,
        haystack=lambda question: dataset.haystack(question.haystack_id),
        seed=seed,
    )


class CheckOutcome(Struct, frozen=True):
    """The outcome of a check."""

    check: JudgeCheck
    folder: Path
    newly_judged: int
    rates: MeasuredRates | None
    """The rates that scores are corrected by; None: no right plant, or no wrong one, has a label."""
    usage: Usage
    """The judge's usage over all starts."""


class JudgeChecking:
    """The check of one judge on one dataset.

    Args:
        dataset: the dataset whose questions the plants answer.
        spec: the judge, as `evaluate --judge` takes it; None: the benchmark's own.
        selection: the questions to plant answers for.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: the benchmark does not define test answers, or the judge is unknown.
    """

    def __init__(
        self,
        dataset: Dataset,
        spec: str | None = None,
        *,
        selection: Selection = Selection(),
        options: CheckOptions = CheckOptions(),
        folders: Folders | None = None,
    ) -> None:
        self._dataset = dataset
        self._benchmark = benchmark_of(dataset)
        self._planting = planting_of(self._benchmark)
        self._spec = spec or default_judge_of(dataset)
        self._options = options
        self._folders = folders or Folders()
        self.identity = self._judge(CallCounter).identity  # A misspelt name is refused before plants are made.
        self._ground = ground_of(dataset, options.seed)
        chosen = select(self._ground.questions, selection, dataset.question_type)
        self._questions = {question.question_id: question for question in chosen}
        self.plants = list(plants_of(dataset, self._ground, chosen, self.identity))
        self._lines = encoded_plants(self.plants)
        self._plants_sha256 = sha256_bytes(self._lines)
        self.folder = check_folder(self._folders.results_dir, self.identity.id, dataset.name, self._plants_sha256)

    def estimate(self) -> Stage:
        """Estimate what is left to do; no call is made and nothing is written."""
        # Rules would grade everything here and again in `check`.
        left = [] if rules_of(self.identity.model) else self.left()
        cases = [(self._questions[plant.question_id], self._gold(plant), plant.text) for plant in left]
        work = judge_calls(self.identity.model, self._judge, cases, len(cases), "all prompts")
        pace = Pace(self._options.model_options.rates, self._options.concurrency)
        return judge_stage(self.identity.id, work, self._folders.results_dir, pace)

    def check(self) -> CheckOutcome:
        """Have the judge grade what it has not graded yet; finished work is kept if the check is interrupted.

        Raises:
            HarnessError: another process checks the same, or the folder cannot be written.
            IntegrityError: plants or labels of an earlier start were changed.
            FatalModelError, SpendingLimitError, EndpointDownError, AllFailedError: as in `evaluate`.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._refuse_changed()
        if not (self.folder / PLANTS).exists():
            write_atomic(self.folder / PLANTS, self._lines)
        with Journal(self.folder / JUDGEMENTS, Judgement) as journal:
            left = self.left(journal.stored.records)
            outcomes = Outcomes(len(left) < len(self.plants), "calls of the judge")
            judge = self._judge(partial(self._model, outcomes)) if left else None
            if judge:
                with progress(f"check judge {self.identity.model}", len(left)) as bar:

                    async def grade(plant: Plant) -> None:
                        journal.append(await self._graded(judge, plant))
                        bar.advance()
                        outcomes.check()

                    complete(run_bounded(left, grade, self._options.concurrency))
            judgements, judgements_sha256 = journal.stored.records, journal.sha256()
        labels = latest_judgements(judgements)
        check = JudgeCheck(
            format=FORMAT,
            judge=self.identity,
            benchmark=self._dataset.benchmark,
            dataset={"name": self._dataset.name, "content_sha256": self._dataset.content_sha256},
            seed=self._options.seed,
            questions=len(self._questions),
            plants_sha256=self._plants_sha256,
            rates=judge_rates(self.plants, labels),
            of_questions=len(self._ground.questions),
            judgements_sha256=judgements_sha256,
        )
        write_atomic(self.folder / CHECK, encoded(check))
        usage = usage_of(judgements)
        return CheckOutcome(check, self.folder, len(left), self._rates(labels), usage)

    def _refuse_changed(self) -> None:
        """Raise if plants or labels are not as the last check left them."""
        try:
            stored = StoredCheck(self.folder)
        except UnreadableError:
            return
        problem = "" if stored.earlier or stored.problem.startswith(CHECK) else stored.problem
        if problem:
            raise IntegrityError(
                f"The judge check failed verification: {problem}",
                where=str(self.folder),
                fix="Restore it from a copy, or delete this folder and run the command again",
            )

    def left(self, judged: list[Judgement] | None = None) -> list[Plant]:
        """Return the plants without a label by this judge.

        Args:
            judged: judgements of the judge; None: the stored ones.
        """
        if judged is None:
            judged = read_journal(self.folder / JUDGEMENTS, Judgement)
        by_rules = rules_of(self.identity.model) is not None
        done = {judgement.question_id for judgement in judged if judgement.label is not None or by_rules}
        return [plant for plant in self.plants if plant.plant_id not in done]

    def _rates(self, labels: Mapping[str, Judgement]) -> MeasuredRates | None:
        return measured_rates(self.plants, labels, judged=compares_words(self.identity))

    async def _graded(self, judge: Judge, plant: Plant) -> Judgement:
        judgement = await judge.judge(self._questions[plant.question_id], self._gold(plant), plant.text)
        return msgspec.structs.replace(judgement, question_id=plant.plant_id)

    def _gold(self, plant: Plant) -> Gold:
        return self._planting.graded_by(self._ground.golds[plant.question_id], plant)

    def _judge(self, factory: Callable[[str], ChatModel]) -> Judge:
        options = self._options
        return load_judge(
            self._spec,
            factory,
            benchmark=self._benchmark,
            votes=options.votes,
            options=options.model_options,
            data_dir=self._folders.data_dir,
        )

    def _model(self, outcomes: Outcomes, spec: str) -> ChatModel:
        account = Account(self.folder / SPENDING, self._options.spending)
        loaded = load_chat_model(spec, self._options.model_options, account=account)
        return LimitedChatModel(WatchedChatModel(loaded, outcomes), self._options.concurrency)
