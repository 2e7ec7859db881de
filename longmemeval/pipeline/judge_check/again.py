"""Recompute a stored check: plants from the data, labels from rules or stored replies, and the rates."""

from collections.abc import Iterator

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.dataset import Dataset
from longmemeval.judges.votes import recomputed
from longmemeval.measures.plant_rates import judge_rates
from longmemeval.pipeline.judge_check.check import ground_of, planting_of, plants_of
from longmemeval.results.graded.judge_checks import CHECK, JUDGEMENTS, PLANTS, StoredCheck
from longmemeval.results.scores.checks import changes

_FOUND: dict[tuple[str, ...], tuple[str | None, ...]] = {}
"""Outcomes by the hashes of the files: the runs of one command share the same checks."""


def check_stored(stored: StoredCheck, dataset: Dataset | None) -> tuple[str | None, ...]:
    """Return one outcome per check: None, or the problem, beginning with the location of the file.

    Args:
        dataset: the data of its plants; None: not available, so neither plants nor labels are recomputed.
    """
    check = stored.check
    files = (str(stored.folder), stored.sha256, check.plants_sha256, stored.journal.sha256)
    key = (*files, stored.problem, dataset.content_sha256 if dataset else "")
    if key not in _FOUND:
        _FOUND[key] = tuple(outcome and f"{stored.name}/{outcome}" for outcome in _outcomes(stored, dataset))
    return _FOUND[key]


def _outcomes(stored: StoredCheck, dataset: Dataset | None) -> Iterator[str | None]:
    yield stored.problem or None
    if stored.problem:
        return
    check = stored.check
    if stored.journal.sha256 != check.judgements_sha256:
        yield f"{CHECK}: is older than the last lines of {JUDGEMENTS}; `longmemeval judge check` writes it again"
        return
    changed = changes(check.rates, judge_rates(stored.plants, stored.judgements))
    shown = "; ".join(changed[:3])
    yield f"{CHECK}: {PLANTS} and {JUDGEMENTS} give other rates ({shown})" if changed else None
    if dataset is not None:
        yield from _recompute(stored, dataset)


def _recompute(stored: StoredCheck, dataset: Dataset) -> Iterator[str | None]:
    check, planted = stored.check, {plant.question_id for plant in stored.plants}
    questions = {question.question_id: question for question in dataset.questions()}
    other = f"{CHECK}: counts {check.of_questions:,} questions of the dataset, which has {len(questions):,}"
    yield other if check.of_questions != len(questions) else None
    chosen = [question for question_id, question in questions.items() if question_id in planted]
    planting, ground = planting_of(benchmark_of(dataset)), ground_of(dataset, check.seed)
    expected = {plant.plant_id: plant for plant in plants_of(dataset, ground, chosen, check.judge)}
    stored_plants = {plant.plant_id: plant for plant in stored.plants}
    odd = next(
        (
            name
            for name in sorted(expected.keys() | stored_plants.keys())
            if expected.get(name) != stored_plants.get(name)
        ),
        None,
    )
    yield f"{PLANTS}: '{odd}' is not what is planted in these data with seed {check.seed}" if odd else None
    if odd:
        return
    judged = {judgement.question_id for judgement in stored.journal.records}
    for plant_id in stored_plants:
        yield None if plant_id in judged else f"{JUDGEMENTS}: plant '{plant_id}' was never judged"
    for judgement in stored.journal.records:
        plant = stored_plants[judgement.question_id]
        question, gold = questions[plant.question_id], planting.graded_by(ground.golds[plant.question_id], plant)
        again = recomputed(check.judge, judgement, question, gold, plant.text)
        same = judgement.label is None or (again.label, again.score, again.vote_labels) == (
            judgement.label,
            judgement.score,
            judgement.vote_labels,
        )
        name = f"{JUDGEMENTS}: plant '{judgement.question_id}'"
        yield None if same else f"{name} has a label that does not follow from what the judge said"
