"""Count the questions whose label changes between repeats, and tell whether the answer or the judge changes it."""

from collections.abc import Sequence

from msgspec import Struct

from longmemeval.measures.metrics import credit
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.index import settings_sha256
from longmemeval.results.scores.gradings import gradings_of


def pool_repeats(graded: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """Group repeats of one configuration; every other run is a group of its own. Groups keep the order given."""
    alike: dict[str, list[Evaluation]] = {}
    for run in graded:
        alike.setdefault(settings_sha256(run.manifest), []).append(run)
    pools: list[list[Evaluation]] = []
    for runs in alike.values():
        numbers = {run.manifest.settings.plain.get("repeat") for run in runs}
        pools += [runs] if len(numbers) > 1 else [[run] for run in runs]
    return sorted(pools, key=lambda pool: graded.index(pool[0]))


class Flips(Struct, frozen=True):
    """Labels of the same questions in several runs of one configuration."""

    questions: int
    """Number of questions that have a label in every run."""
    flipped: int
    """Number of those questions whose label is not the same in all runs."""
    by_judge: int | None
    """Number of `flipped` questions where the very same text has both labels, in these runs or when graded again.

    None: no text was labelled twice, so nothing is known about the judge.
    """
    seen_twice: int
    """Number of questions with a text that was labelled more than once, in several runs or gradings."""

    @property
    def by_answer(self) -> int | None:
        """Number of `flipped` questions whose texts differ, each text with a single label as far as is known."""
        return None if self.by_judge is None else self.flipped - self.by_judge


def flips_of(runs: Sequence[Evaluation]) -> Flips:
    """Count the labels that change between two or more runs of one configuration.

    Later gradings of the same answers (`evaluate --rejudge`) add evidence about the judge: their labels never count as
    a change between runs, only as another label of a text.
    """
    credits = [run.credits for run in runs]
    seen = [_labels_by_text(run) for run in runs]
    questions = flipped = by_judge = twice = 0
    for question_id in credits[0]:
        between = [by_question.get(question_id) for by_question in credits]
        if None in between:
            continue
        questions += 1
        by_text: dict[str, list[float]] = {}
        for text, label in (pair for labels in seen for pair in labels.get(question_id, ())):
            by_text.setdefault(text, []).append(label)
        twice += any(len(labels) > 1 for labels in by_text.values())
        if len(set(between)) > 1:
            flipped += 1
            by_judge += any(len(set(labels)) > 1 for labels in by_text.values())
    return Flips(questions, flipped, by_judge if twice else None, twice)


def _labels_by_text(run: Evaluation) -> dict[str, list[tuple[str, float]]]:
    """Return the text of each answer with each label that the judge gave it, by question."""
    labels: dict[str, list[tuple[str, float]]] = {}
    for judge_id in gradings_of(run.files, run.metrics.judge):
        for question_id, judgement in run.files.current_judgements(judge_id).items():
            label, answer = credit(judgement), run.answers.get(question_id)
            if label is not None and answer is not None:
                labels.setdefault(question_id, []).append((answer.hypothesis.strip(), label))
    return labels
