"""Read what exists of a sweep: answers, labels, money spent, and whether runs were started with other settings."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.registry import default_judge_of, load_dataset, load_judge
from longmemeval.core.files import sha256_text
from longmemeval.core.text.words import differences
from longmemeval.errors import HarnessError
from longmemeval.judges.protocol import Judge, JudgeIdentity
from longmemeval.llm.costs import JUDGES_SPENDING, SPENDING, Account, limit_beside, spent_in
from longmemeval.llm.options import SpendingLimit
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import load_chat_model
from longmemeval.llm.tokens import CallCounter
from longmemeval.pipeline.evaluate.evaluate import unlabelled
from longmemeval.pipeline.run.plan import RunPlan
from longmemeval.pipeline.sweep.plan import SweepPlan, placed
from longmemeval.reading.configuration import prompt_limit
from longmemeval.records import Answer, Question
from longmemeval.results.index import IndexEntry, read_index
from longmemeval.results.lifecycle import can_begin_again
from longmemeval.results.lines import ANSWERS
from longmemeval.results.listing import RecordedRun, SweepRecord
from longmemeval.results.manifest import RunManifest, planned_manifest
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.selection import select
from longmemeval.settings import Folders


class SweepState:
    """The state of a sweep: its plan and the files on disk, which are read once, and again after `changed`.

    Raises:
        HarnessError: the dataset, its selection or a judge is missing.
    """

    def __init__(self, planned: SweepPlan, folders: Folders) -> None:
        self.plan = planned
        self.folders = folders
        self.dataset = load_dataset(planned.dataset, folders.data_dir)
        self.runs = tuple(replace(run, data=self.dataset, folders=folders) for run in planned.runs)
        """The runs of the plan, on the data."""
        self.questions = select(list(self.dataset.questions()), planned.selection, self.dataset.question_type)
        self._planned = planned_manifest(self.dataset, self.runs[0].settings, self.questions, planned.selection)
        self.asked = RunQuestions(self._planned, self.dataset)
        specs = planned.judges or (default_judge_of(self.dataset),)
        self.judges: dict[str, JudgeIdentity] = {spec: self._identity(spec) for spec in specs}
        """The judges by spec."""
        self._files: dict[str, RunFiles] = {}
        """The files read of each run, by id."""
        self._index: list[IndexEntry] | None = None

    def _identity(self, spec: str) -> JudgeIdentity:
        with placed(next(iter(self.plan.entries.values())).judges.get(spec, "")):
            return self.judge(spec, CallCounter).identity

    def changed(self, run: RunPlan) -> None:
        """Note that a run was written to, so that its files are read again."""
        self._files.pop(run.run_id, None)
        self._index = None

    def judge(self, spec: str, model: Callable[[str], ChatModel]) -> Judge:
        """Return the judge of a spec, its chat models made by `model`."""
        planned = self.plan
        return load_judge(
            spec,
            model,
            benchmark=benchmark_of(self.dataset),
            votes=planned.grading.votes,
            options=planned.grading.model_options,
            data_dir=self.folders.data_dir,
        )

    @property
    def record(self) -> SweepRecord:
        """The planned runs of the sweep, for lists of runs."""
        runs = tuple(RecordedRun(run.run_id, run.configuration.name, run.model) for run in self.runs)
        return SweepRecord(sweep=self.plan.name, dataset=self.dataset.name, questions=len(self.questions), runs=runs)

    def folder(self, run: RunPlan) -> Path:
        """Return the folder of a run, which need not exist yet."""
        return self.folders.results_dir / run.run_id

    def files(self, run: RunPlan) -> RunFiles:
        """Return the files of a run."""
        if run.run_id not in self._files:
            self._files[run.run_id] = RunFiles(self.folder(run))
        return self._files[run.run_id]

    def answers(self, run: RunPlan) -> dict[str, Answer]:
        """Return the answers of a run that count, failed calls left out."""
        return {name: answer for name, answer in self.files(run).answers.items() if answer.status == "ok"}

    def unanswered(self, run: RunPlan) -> list[Question]:
        """Return the questions without an answer in a run."""
        answers = self.answers(run)
        return [question for question in self.questions if question.question_id not in answers]

    def is_answered(self, run: RunPlan) -> bool:
        """Return whether a run is complete, and its answers are unchanged since."""
        manifest = self._manifest(run)
        if manifest is None or manifest.status != "completed" or self.unanswered(run):
            return False
        return self.is_intact(run)

    def is_intact(self, run: RunPlan) -> bool:
        """Return whether the answers are unchanged since the run wrote them."""
        manifest, files = self._manifest(run), self.files(run)
        return manifest is not None and manifest.files.get(ANSWERS, "") == files.sha256(ANSWERS) != ""

    def unlabelled(self, run: RunPlan, judge: JudgeIdentity) -> list[str]:
        """Return the answered questions that a judge has yet to label."""
        return unlabelled(self.files(run), judge)

    def is_graded(self, run: RunPlan, judge: JudgeIdentity) -> bool:
        """Return whether all answers of a run are labelled and its scores match the labels."""
        files = self.files(run)
        scores = [metrics for metrics in files.metrics if metrics.judge.id == judge.id]
        current = scores and scores[0].judgements_sha256 == files.judged(judge.id).sha256
        if self._index is None:
            self._index = read_index(self.folders.results_dir)
        indexed = any((entry.run, entry.judge) == (run.run_id, judge.id) for entry in self._index)
        return bool(current) and indexed and not unlabelled(files, judge)

    def is_complete(self, run: RunPlan) -> bool:
        """Return whether nothing of a run is left to do."""
        return self.is_answered(run) and all(self.is_graded(run, judge) for judge in self.judges.values())

    @property
    def account_file(self) -> Path:
        """The file that records the cost of preparing for this sweep."""
        return self.folders.results_dir / f"{self.plan.name}_{SPENDING}"

    def spent(self) -> float:
        """Return the US dollars spent so far on the sweep's preparation, runs and judges, failed attempts included."""
        return spent_in(*self._accounts)

    def limit(self, dollars: float | None, account: Path) -> SpendingLimit | None:
        """Return the sweep's limit for one piece of its work.

        Args:
            dollars: limit of the whole sweep; None: no limit.
            account: account of that piece of work.
        """
        others = (other for other in self._accounts if other != account)
        return limit_beside(None if dollars is None else SpendingLimit(dollars), others)

    @property
    def _accounts(self) -> list[Path]:
        files = [self.folder(run) / name for run in self.runs for name in (SPENDING, JUDGES_SPENDING)]
        return [*files, self.account_file]

    def check_settings(self) -> None:
        """Raise if a planned run cannot be read as its entry says, or was started with other settings.

        Raises:
            HarnessError: a reading does not fit its model or memory, or a run of that id has other settings, questions
                or data.
        """
        for run in self.runs:
            manifest = self._manifest(run)
            if manifest is None or can_begin_again(self.folder(run), self.files(run).answer_lines):
                continue
            expected = self._expected_settings(run)
            found = {"repeat": 1, **manifest.settings.plain} | _subject(manifest)
            if changed := differences(_restricted(found, expected), expected):
                raise HarnessError(
                    f"Run '{run.run_id}' was started with other settings: {'; '.join(changed[:5])}",
                    where=str(self.plan.file),
                    fix="Restore the settings, or give the sweep or the entry another `name`; nothing is done yet",
                )
        for run in self.runs:
            try:
                prompt_limit(run.reading, run.reading.max_tokens)
            except HarnessError as error:
                place = self.plan.entries[run.run_id].to_check("reading")
                raise HarnessError(error.what, where=place or error.where, fix=error.fix) from error

    def check_models(self, *, limited: bool) -> None:
        """Check without a call that the models of unfinished work can be called.

        Raises:
            FatalModelError: no such model, no key, or an unknown price under a limit.
        """
        account = Account(None, SpendingLimit(0.0)) if limited else None
        left = [run for run in self.runs if not self.is_answered(run)]
        for spec, options in dict.fromkeys((run.model, run.options.model_options) for run in left):
            load_chat_model(spec, options, account=account)
        for spec, judge in self.judges.items():
            if not all(self.is_answered(run) and self.is_graded(run, judge) for run in self.runs):
                self.judge(spec, lambda name: load_chat_model(name, self.plan.grading.model_options, account=account))

    def _manifest(self, run: RunPlan) -> RunManifest | None:
        return self.files(run).manifest if (self.folder(run) / "run.json").exists() else None

    def _expected_settings(self, run: RunPlan) -> dict[str, Any]:
        """Return the settings of a run that are known before preparing; `prepare` and `run` check the others."""
        settings = run.settings.plain
        reading = {"note_template": None} | settings["reading"]
        given = run.options.reading
        if given is None or given.options.context_window is None:
            del reading["context_window"]  # It is the model's own, which `run` determines.
        del settings["embedder"]  # It is the preparation's, which `run` determines.
        return _subject(self._planned) | {"repeat": 1} | settings | {"reading": reading}


def _subject(manifest: RunManifest) -> dict[str, Any]:
    """Return the subject of a run, in addition to its settings."""
    digest = sha256_text("\n".join(manifest.question_ids))
    return {
        "kind": manifest.kind,
        "dataset content": manifest.dataset["content_sha256"],
        "questions": f"{len(manifest.question_ids)} ({digest[:12]}…)",
    }


def _restricted(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of `found` whose keys `wanted` has."""
    return {
        key: _restricted(found.get(key) or {}, value) if isinstance(value, dict) and value else found.get(key)
        for key, value in wanted.items()
    }
