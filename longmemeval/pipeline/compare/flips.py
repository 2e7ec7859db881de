"""Repeats of one configuration: how many questions change their label, and whether the answer or the judge does it."""

from collections.abc import Sequence

from msgspec import Struct

from longmemeval.measures.metrics import credit
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.index import settings_sha256
from longmemeval.results.scores.gradings import gradings_of


def pool_repeats(graded: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """Return the runs with repeats of one configuration together, each other run by itself, in the order given."""
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
    """Questions that every run has a label of."""
    flipped: int
    """Those that do not have the same label in all runs."""
    by_judge: int | None
    """Those of `flipped` where one and the same text has both labels, in these runs or when graded again. None: no text
    was labelled twice, so that nothing is known of the judge."""
    seen_twice: int
    """Questions with a text that was labelled more than once, in several runs or gradings."""

    @property
    def by_answer(self) -> int | None:
        """Those of `flipped` whose texts differ, and each of which has one label as far as is known."""
        return None if self.by_judge is None else self.flipped - self.by_judge


def flips_of(runs: Sequence[Evaluation]) -> Flips:
    """Return what changes between runs of one configuration, two or more.

    Later gradings of the same answers (`evaluate --rejudge`) say more of the judge: their labels never count as a
    change between runs, only as another label of a text.
    """
    credits = [run.credits for run in runs]
    seen = [_labels_by_text(run) for run in runs]
    questions = flipped = by_judge = twice = 0
    for question_id in credits[0]:
        between = [one.get(question_id) for one in credits]
        if None in between:
            continue
        questions += 1
        by_text: dict[str, list[float]] = {}
        for text, given in (pair for one in seen for pair in one.get(question_id, ())):
            by_text.setdefault(text, []).append(given)
        twice += any(len(given) > 1 for given in by_text.values())
        if len(set(between)) > 1:
            flipped += 1
            by_judge += any(len(set(given)) > 1 for given in by_text.values())
    return Flips(questions, flipped, by_judge if twice else None, twice)


def _labels_by_text(run: Evaluation) -> dict[str, list[tuple[str, float]]]:
    """Return the text of each answer with each label that the judge gave it, by question."""
    found: dict[str, list[tuple[str, float]]] = {}
    for judge_id in gradings_of(run.files, run.metrics.judge):
        for question_id, judgement in run.files.current_judgements(judge_id).items():
            given, answer = credit(judgement), run.answers.get(question_id)
            if given is not None and answer is not None:
                found.setdefault(question_id, []).append((answer.hypothesis.strip(), given))
    return found
