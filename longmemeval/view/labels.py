"""Labels that people give on the pages: what is asked next, who said what, how far they agree with the judges."""

import base64
import binascii
import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from longmemeval.errors import HarnessError
from longmemeval.judges.people import person_identity
from longmemeval.judges.template_set import judge_name
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.pipeline.evaluate.labelling import agreement_with_people, person_labels
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.run_files import RunFiles
from longmemeval.statistics.paired import Agreement
from longmemeval.storage.messages import haystack_messages
from longmemeval.view.opened import Choice
from longmemeval.view.question.evidence import evidence_of

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# Label blind: answers of several runs in an order and under a code that do not reveal the runs.


class BlindItem(Struct, frozen=True):
    """One answer to label; nothing in it reveals its run."""

    place: int
    """Position in the order of this labelling; the form sends it back."""
    question: str
    date: str
    right_answer: str
    evidence: tuple[str, ...]
    """Texts of the messages labelled as evidence."""
    answer: str
    done: int
    """Number of answers that the person has labelled."""
    total: int


def code_of(choice: Choice) -> str:
    """Return a code for the runs of a labelling that does not show their names at a glance."""
    return base64.urlsafe_b64encode(msgspec.json.encode([choice.judge, *choice.runs])).decode().rstrip("=")


def choice_in(code: str) -> Choice:
    """Return the runs that a code stands for.

    Raises:
        HarnessError: the code is invalid.
    """
    try:
        judge, *runs = msgspec.json.decode(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)), type=list[str])
    except (binascii.Error, ValueError) as error:
        raise HarnessError("This is not the address of a labelling", fix="Begin one on the page of labels") from error
    if not runs:
        raise HarnessError("This labelling has no runs", fix="Begin one on the page of labels")
    return Choice(tuple(runs), judge)


def order_of(runs: Sequence[Evaluation], code: str) -> list[tuple[Evaluation, str]]:
    """Return run and question id of every answer, in an order that is the same for everybody with the same code.

    Equal answers to a question are a single item, that of the first run.
    """
    items: dict[tuple[str, str], tuple[Evaluation, str]] = {}
    for run in runs:
        for question_id, answer in run.answers.items():
            if answer.status == "ok":
                items.setdefault((question_id, answer.hypothesis.strip()), (run, question_id))

    def shuffle_key(item: tuple[Evaluation, str]) -> str:
        return hashlib.sha256(f"{code} {item[0].id} {item[1]}".encode()).hexdigest()

    return sorted(items.values(), key=shuffle_key)


def next_item(runs: Sequence[Evaluation], code: str, name: str, begin: int) -> BlindItem | None:
    """Return the first answer from position `begin` that the person has not labelled; None after the last.

    Raises:
        HarnessError: the name is not allowed.
    """
    judge = person_identity(name, blind=True)
    labelled = {run.id: RunFiles(run.files.folder).current_judgements(judge.id).keys() for run in runs}
    order = order_of(runs, code)
    done = sum(question_id in labelled[run.id] for run, question_id in order)
    for place, (run, question_id) in enumerate(order):
        if place >= begin and question_id not in labelled[run.id]:
            return _item(place, run, question_id, done, len(order))
    return None


def _item(place: int, run: Evaluation, question_id: str, done: int, total: int) -> BlindItem:
    question, evidence = run.asked.questions[question_id], evidence_of(run.asked, question_id)
    messages = haystack_messages(run.asked.dataset.haystack(question.haystack_id))
    labelled = [message for message in messages if evidence.turns and evidence.holds(message.message_id)]
    return BlindItem(
        place,
        question.text,
        question.date_text,
        evidence.answer,
        tuple(f"{turn.created_at:%Y-%m-%d} {turn.speaker or turn.role}: {turn.content}" for turn in labelled),
        run.answers[question_id].hypothesis,
        done,
        total,
    )


# Read people's labels of answers, anew for every page, as people may be labelling in another window.


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
