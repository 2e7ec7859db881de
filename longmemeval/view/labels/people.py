"""Read people's labels of answers, anew for every page, as people may be labelling in another window."""

from msgspec import Struct

from longmemeval.judges.template_set import judge_name
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.evaluate.labelling import agreement_with_people, person_labels
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.run_files import RunFiles
from longmemeval.statistics.paired import Agreement


class PersonSaid(Struct, frozen=True):
    """One person's label of one answer."""

    who: str
    right: bool
    why: str
    blind: bool


class Agreeing(Struct, frozen=True):
    """The agreement of a person and another judge on the answers of one run."""

    place: int
    """Index of the run among those of the page."""
    person: str
    other: str
    agreement: Agreement


def labels_of_people(comparison: Comparison, question_id: str) -> list[list[PersonSaid]]:
    """Return people's labels of the answers to one question, for each run of a comparison."""
    return [_labels_on(run, question_id) for run in comparison.evaluations]


def _labels_on(run: Evaluation, question_id: str) -> list[PersonSaid]:
    on_answer = []
    for judge, labels in person_labels(RunFiles(run.files.folder)):
        if (judgement := labels.get(question_id)) and judgement.label is not None:
            who = judge.model.partition("/")[2]
            on_answer.append(PersonSaid(who, judgement.label, judgement.raw, bool(judge.parameters.get("blind"))))
    return on_answer


def agreements(comparison: Comparison) -> list[Agreeing]:
    """Return the agreement of people with the judges, and with each other, run by run."""
    found = []
    for place, run in enumerate(comparison.evaluations):
        files = RunFiles(run.files.folder, manifest=run.manifest)
        judges = {metrics.judge.id: metrics.judge for metrics in files.metrics}
        people = {judge.id for judge, _ in person_labels(files)}
        for pair in agreement_with_people(files, run.asked):
            person, other = (pair.a, pair.b) if pair.a in people else (pair.b, pair.a)
            first, second = (judge_name(judges[judge_id]).removeprefix("person/") for judge_id in (person, other))
            found.append(Agreeing(place, first, second, pair.agreement))
    return found
