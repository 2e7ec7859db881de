"""Check the judge checks that a run's corrected scores are based on, and bridges between judges, for `verify`."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.definition import rules_of
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.pipeline.compare.bridge import FOLDER, check_bridge
from longmemeval.pipeline.judge_check.again import check_stored
from longmemeval.results.graded.judge_checks import CHECK, JudgeChecks, StoredCheck
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.warnings import check_command
from longmemeval.settings import Folders

__all__ = ["ScoreChecks", "bridge_results", "check_bridge"]


def bridge_results(path: Path) -> Path | None:
    """Return the results folder of the file of a bridge between judges; None if it is no such file."""
    parents = path.absolute().parents
    return parents[3] if path.is_file() and len(parents) > 3 and parents[2].name == FOLDER else None


class ScoreChecks:
    """The judge checks that the scores of one run are corrected by.

    Args:
        judges: the judges that graded the run.
    """

    def __init__(self, judges: Sequence[JudgeIdentity], run_questions: RunQuestions, folders: Folders) -> None:
        self._judges, self._run_questions, self._folders = judges, run_questions, folders
        self._stored = JudgeChecks(folders.results_dir)

    @cached_property
    def used(self) -> dict[str, tuple[JudgeIdentity, StoredCheck]]:
        """The checks by their path in the results folder."""
        content, benchmark = self._run_questions.dataset.content_sha256, self._run_questions.benchmark.name
        found = [(judge, self._stored.of(judge, benchmark, content)) for judge in self._judges]
        return {stored.name: (judge, stored) for judge, stored in found if stored}

    def outcomes(self) -> Iterator[str | None]:
        """Yield one outcome per item checked: None, or the problem; damaged checks are reported too."""
        for judge in self._judges:
            earlier = {stored.name for stored in self._earlier(judge)}
            for refused in dict.fromkeys(self._stored.refused(judge, self._run_questions.benchmark.name)):
                yield None if refused.partition(f"/{CHECK}:")[0] in earlier else refused
        for judge, stored in self.used.values():
            other = stored.check.judge.metric != judge.metric
            yield f"{stored.name}/{CHECK}: its metric is not that of the scores" if other else None
            yield from check_stored(stored, self._data_of(stored))

    def notes(self) -> Iterator[str]:
        """Yield sentences on what was checked, and on what could not be."""
        for judge in self._judges:
            for stored in self._earlier(judge):
                again = f"`{check_command(judge, self._run_questions)}` repeats it"
                yield f"{stored.name} is of an earlier version and corrects no score; {again}"
        for judge, stored in self.used.values():
            basis = f"Corrected scores rest on {stored.name}: its rates follow from its {len(stored.plants):,} plants"
            labels = "its labels by rules" if rules_of(judge.model) else "its labels from the stored replies"
            missing = f"its data ({stored.check.dataset.get('name')}) are not available to regenerate them"
            recomputed = f"which were regenerated too, and {labels}" if self._data_of(stored) else missing
            yield f"{basis}, {recomputed}"

    def _earlier(self, judge: JudgeIdentity) -> list[StoredCheck]:
        return self._stored.earlier(judge, self._run_questions.benchmark.name)

    def _data_of(self, stored: StoredCheck) -> Dataset | None:
        """Return the data of a check: the run's, or by its name in the catalogue; None if not available."""
        content = stored.check.dataset.get("content_sha256")
        if content == self._run_questions.dataset.content_sha256:
            return self._run_questions.dataset
        name = stored.check.dataset.get("name", "")
        if name not in self._others:
            self._others[name] = _loaded(name, self._folders.data_dir)
        data = self._others[name]
        return data if data and data.content_sha256 == content else None

    @cached_property
    def _others(self) -> dict[str, Dataset | None]:
        return {}


def _loaded(name: str, data_dir: Path) -> Dataset | None:
    try:
        return load_dataset(name, data_dir)
    except HarnessError:
        return None
