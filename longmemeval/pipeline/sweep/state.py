"""What is there of a sweep already: answers, labels, money spent, and whether all of it was started as is asked now."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from longmemeval.benchmarks.judges import load_judge
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.benchmarks.specs import benchmark_of
from longmemeval.core.files import sha256_text
from longmemeval.errors import HarnessError
from longmemeval.judges.protocol import Judge, JudgeIdentity
from longmemeval.llm.call_counter import CallCounter
from longmemeval.llm.costs.spending import SPENDING, Account, SpendingLimit, spent_in
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import load_chat_model
from longmemeval.pipeline.evaluate.evaluate import unlabelled
from longmemeval.pipeline.run.run import RunOptions, run_settings
from longmemeval.pipeline.sweep.plan import PlannedRun, SweepPlan
from longmemeval.records import Answer, Question
from longmemeval.results.accounts import spent_on_answers, spent_on_judging
from longmemeval.results.index import IndexEntry, read_index
from longmemeval.results.lines import ANSWERS
from longmemeval.results.manifest import FORMAT, RunManifest, dataset_record, differences
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.selection import select
from longmemeval.results.settings import AnswerSettings
from longmemeval.settings import Folders


class SweepState:
    """A sweep's plan beside what is on disk, which is read once, and again after `changed`.

    Args:
        plan: what is asked for.
        where: the folders.

    Raises:
        HarnessError: the data set, its selection or a judge is not there.
    """

    def __init__(self, plan: SweepPlan, where: Folders) -> None:
        self.plan = plan
        self.where = where
        self.dataset = load_dataset(plan.dataset, where.data_dir)
        self.questions = select(list(self.dataset.questions()), plan.selection, self.dataset.question_type)
        self._planned = RunManifest(
            format=FORMAT,
            run_id="",
            status="running",
            dataset=dataset_record(self.dataset),
            settings=self._settings(plan.runs[0]),
            question_ids=tuple(question.question_id for question in self.questions),
            fixtures={},
            environment={},
            started_at="",
            selection=plan.selection,
        )
        self.asked = RunQuestions(self._planned, self.dataset)
        specs = plan.judges or (benchmark_of(self.dataset).default_judge,)
        self.judges: dict[str, JudgeIdentity] = {spec: self.judge(spec, CallCounter).identity for spec in specs}
        """By spec."""
        self._files: dict[str, RunFiles] = {}
        """What was read of each run, by id."""
        self._index: list[IndexEntry] | None = None

    def changed(self, run: PlannedRun) -> None:
        """Take note that something was written to a run: its files are read again."""
        self._files.pop(run.run_id, None)
        self._index = None

    def judge(self, spec: str, model: Callable[[str], ChatModel]) -> Judge:
        """The judge of a spec, its chat models made by `model`."""
        planned = self.plan
        return load_judge(
            spec,
            model,
            benchmark=benchmark_of(self.dataset),
            votes=planned.votes,
            options=planned.judge_options,
            data_dir=self.where.data_dir,
        )

    def folder(self, run: PlannedRun) -> Path:
        """Where a run is or will be."""
        return self.where.results_dir / run.run_id

    def options(self, run: PlannedRun) -> RunOptions:
        """How a run is done, except for what it may cost."""
        return RunOptions(
            reading=run.reading.configuration,
            prepared=self.plan.prepare.name,
            embedder=self.plan.prepare.embedder,
            model_options=run.model.options,
            concurrency=self.plan.concurrency,
            run_id=run.run_id,
            repeat=run.repeat,
            sweep=self.plan.name,
        )

    def files(self, run: PlannedRun) -> RunFiles:
        """What the files of a run hold."""
        if run.run_id not in self._files:
            self._files[run.run_id] = RunFiles(self.folder(run))
        return self._files[run.run_id]

    def answers(self, run: PlannedRun) -> dict[str, Answer]:
        """The answers of a run that count, failed calls left out."""
        return {name: answer for name, answer in self.files(run).answers.items() if answer.status == "ok"}

    def unanswered(self, run: PlannedRun) -> list[Question]:
        """The questions a run has no answer to."""
        answers = self.answers(run)
        return [question for question in self.questions if question.question_id not in answers]

    def is_answered(self, run: PlannedRun) -> bool:
        """Whether a run is done, and its answers are those it left."""
        manifest = self._manifest(run)
        if manifest is None or manifest.status != "completed" or self.unanswered(run):
            return False
        return self.is_intact(run)

    def is_intact(self, run: PlannedRun) -> bool:
        """Whether the answers are those that the run left."""
        manifest, files = self._manifest(run), self.files(run)
        return manifest is not None and manifest.files.get(ANSWERS, "") == files.sha256(ANSWERS) != ""

    def unlabelled(self, run: PlannedRun, judge: JudgeIdentity) -> list[str]:
        """The answered questions that a judge has yet to label."""
        return unlabelled(self.files(run), judge)

    def is_graded(self, run: PlannedRun, judge: JudgeIdentity) -> bool:
        """Whether all answers of a run are labelled and its scores are those of the labels."""
        files = self.files(run)
        scores = [metrics for metrics in files.metrics if metrics.judge.id == judge.id]
        current = scores and scores[0].judgements_sha256 == files.judged(judge.id).sha256
        if self._index is None:
            self._index = read_index(self.where.results_dir)
        indexed = any((one.run, one.judge) == (run.run_id, judge.id) for one in self._index)
        return bool(current) and indexed and not unlabelled(files, judge)

    def is_complete(self, run: PlannedRun) -> bool:
        """Whether nothing of a run is left to do."""
        return self.is_answered(run) and all(self.is_graded(run, judge) for judge in self.judges.values())

    @property
    def account_file(self) -> Path:
        """Where it is written down what preparing for this sweep costs."""
        return self.where.results_dir / f"{self.plan.name}_{SPENDING}"

    def spent(self) -> float:
        """US dollars that the sweep's preparation, runs and judges cost so far, attempts that failed included."""
        folders = [self.folder(run) for run in self.plan.runs]
        on_runs = sum(spent_on_answers(folder) + spent_on_judging(folder) for folder in folders)
        return on_runs + (spent_in(self.account_file) or 0.0)

    def limit(self, dollars: float | None, spent_here: float) -> SpendingLimit | None:
        """The sweep's limit for one piece of its work.

        Args:
            dollars: of the whole sweep; None: there is none.
            spent_here: what that piece has cost so far.
        """
        return None if dollars is None else SpendingLimit(dollars, self.spent() - spent_here)

    def check_begun(self) -> None:
        """Refuse to go on where a planned run was started as something else.

        Raises:
            HarnessError: a run of that id has other settings, questions or data.
        """
        for run in self.plan.runs:
            manifest = self._manifest(run)
            if manifest is None:
                continue
            asked = self._asked(run)
            found = {"repeat": 1, **manifest.settings.plain} | _subject(manifest)
            if changed := differences(_as_far(found, asked), asked):
                raise HarnessError(
                    f"Run '{run.run_id}' was started with other settings: {'; '.join(changed[:5])}",
                    where=str(self.plan.file),
                    fix="Restore the settings, or give the sweep or the entry another `name`; nothing is done yet",
                )

    def check_models(self, *, limited: bool) -> None:
        """Find out without a call whether the models of what is not done can be called.

        Raises:
            FatalModelError: no such model, no key, or a price that is not known where there is a limit.
        """
        account = Account(None, SpendingLimit(0.0)) if limited else None
        left = [run for run in self.plan.runs if not self.is_answered(run)]
        for spec, options in dict.fromkeys((run.model.spec, run.model.options) for run in left):
            load_chat_model(spec, options, account=account)
        for spec, judge in self.judges.items():
            if not all(self.is_answered(run) and self.is_graded(run, judge) for run in self.plan.runs):
                self.judge(spec, lambda name: load_chat_model(name, self.plan.judge_options, account=account))

    def _manifest(self, run: PlannedRun) -> RunManifest | None:
        return self.files(run).manifest if (self.folder(run) / "run.json").exists() else None

    def _settings(self, run: PlannedRun) -> AnswerSettings:
        return run_settings(run.configuration, run.model.spec, run.reading.configuration, self.options(run))

    def _asked(self, run: PlannedRun) -> dict[str, Any]:
        """What of a run's settings can be told before anything is prepared; the rest `prepare` and `run` check."""
        settings = self._settings(run).plain
        reading = {"note_template": None} | settings["reading"]
        if reading["context_window"] is None:
            del reading["context_window"]  # The model's own, which `run` finds out.
        return _subject(self._planned) | {"repeat": 1} | settings | {"reading": reading}


def _subject(manifest: RunManifest) -> dict[str, Any]:
    """What a run is about beside its settings."""
    digest = sha256_text("\n".join(manifest.question_ids))
    return {
        "kind": manifest.kind,
        "data set content": manifest.dataset["content_sha256"],
        "questions": f"{len(manifest.question_ids)} ({digest[:12]}…)",
    }


def _as_far(found: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Of `found` what `asked` speaks of."""
    return {
        key: _as_far(found.get(key) or {}, value) if isinstance(value, dict) and value else found.get(key)
        for key, value in asked.items()
    }
