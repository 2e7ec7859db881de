"""Have two judges grade the same answers, and store the bridge between them."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.bridge import Bridge, bridge_of
from longmemeval.pipeline.evaluate.evaluate import answers_to_grade, chosen_judge, evaluate_by
from longmemeval.pipeline.options import EvaluateOptions
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.settings import Folders


class MadeBridge(Struct, frozen=True):
    """The outcome of bridging two judges."""

    bridge: Bridge
    file: Path
    evaluations: tuple[Evaluation, ...]
    """Each run as each judge graded it."""

    @property
    def failed(self) -> bool:
        """True if a question has no answer or no label, as for `evaluate`."""
        return any(evaluation.failed for evaluation in self.evaluations)


def bridge_judges(
    old: str,
    new: str,
    run_ids: Sequence[str],
    *,
    options: EvaluateOptions = EvaluateOptions(),
    folders: Folders | None = None,
) -> MadeBridge:
    """Have both judges grade the answers of runs, compare their labels and store the bridge.

    Args:
        old: a judge, as `EvaluateOptions.judge`.
        new: another judge of the same metric.
        run_ids: runs over the same questions of the same data.
        options: options of grading, for both judges.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: as for `evaluate` and `compare`, or the two are one judge, or their scores have other metrics, or
            no answer has a label by both.
    """
    folders = folders or Folders()
    check_judges(old, new, run_ids, options, folders)
    graded = [one for run in run_ids for one in evaluate_by([old, new], run, options=options, folders=folders)]
    ids = [evaluation.grading.judge.id for evaluation in graded[:2]]
    bridge = bridge_of(*(load_graded(run_ids, folders, judge=name, dataset=options.dataset) for name in ids))
    if bridge.old.metric == "accuracy" and not bridge.overall.agreement.n:
        judgements = (judgement for one in graded for judgement in one.judgements.values())
        raise HarnessError(
            f"No answer has a label by both judges, {' and '.join(bridge.judges)}",
            where=next((judgement.error for judgement in judgements if judgement.error), ""),
            fix="Run the command again, or name another judge",
        )
    file = folders.results_dir / bridge.name
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, msgspec.json.format(msgspec.json.encode(bridge), indent=2) + b"\n")
    return MadeBridge(bridge, file, tuple(graded))


def check_judges(old: str, new: str, run_ids: Sequence[str], options: EvaluateOptions, folders: Folders) -> None:
    """Raise before anything is paid if two judges cannot be bridged (see `bridge_judges`)."""
    files, asked = answers_to_grade(run_ids[0], options, folders)
    a, b = (chosen_judge(files, asked.dataset, options, folders.data_dir, spec).identity for spec in (old, new))
    if a.id == b.id:
        raise HarnessError(f"'{old}' and '{new}' are one judge, {a.id}", fix="Name two judges")
    if a.metric != b.metric:
        raise HarnessError(
            f"The judges score by different metrics: {a.id} ({a.metric}); {b.id} ({b.metric})",
            fix="Name two judges of one metric",
        )
