"""Labels that people give: one line each in the judgements of the person, who is a judge like any other."""

from msgspec import Struct

from longmemeval.core.files import sha256_text
from longmemeval.core.journal import Journal
from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.people import is_person, person_identity
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.pipeline.evaluate.agreement import JudgeAgreement, judge_agreements
from longmemeval.records import Judgement
from longmemeval.results.lines import judgements_file
from longmemeval.results.manifest import run_folder
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.checked import write_scores
from longmemeval.settings import Folders

_LONGEST_REASON = 2_000


class PersonLabel(Struct, frozen=True):
    """A person's label of one answer."""

    run_id: str
    question_id: str
    right: bool
    why: str = ""
    """Reason in the person's words."""


class Labelled(Struct, frozen=True):
    """A label that was stored."""

    judge: JudgeIdentity
    count: int
    """Labels that this person has given in the run so far."""


def label_answer(label: PersonLabel, asked: RunQuestions, folders: Folders, *, name: str, blind: bool) -> Labelled:
    """Store a person's label of an answer, and update the person's scores.

    Simultaneous labels, from other windows or processes, wait for a moment; no label is lost.

    Args:
        asked: the questions of the run.
        name: name of the person.
        blind: True if system and judges were hidden; such labels have a file of their own.

    Raises:
        HarnessError: no name, no such run or answer, or the person has labelled the answer before: like every judge's,
            a label stays.
    """
    judge = person_identity(name, blind=blind)
    folder = run_folder(folders.results_dir, label.run_id)
    files = RunFiles(folder)
    judgement = _judgement(label, files, judge)
    with Journal(judgements_file(folder, judge.id), Judgement, wait=True) as journal:
        files.writes(judge.id, journal.stored)
        earlier_labels = files.current_judgements(judge.id)
        if earlier := earlier_labels.get(label.question_id):
            verdict = "right" if earlier.label else "wrong"
            raise HarnessError(
                f"{' '.join(name.split())} has labelled this answer before, as {verdict}",
                where=f"run '{label.run_id}', question '{label.question_id}'",
                fix="A label stays as it was given; another opinion needs another name",
            )
        journal.append(judgement)
        write_scores(files, asked.of(files.manifest), judge)
    return Labelled(judge, len(earlier_labels) + 1)


def _judgement(label: PersonLabel, files: RunFiles, judge: JudgeIdentity) -> Judgement:
    answer = files.answers.get(label.question_id)
    if answer is None or answer.status != "ok":
        raise HarnessError(
            f"Run '{label.run_id}' has no answer to '{label.question_id}'",
            fix=nearest(label.question_id, list(files.answers)),
        )
    why = label.why.strip()
    if len(why) > _LONGEST_REASON:
        raise HarnessError(f"The reason is longer than {_LONGEST_REASON:,} characters", fix="Shorten it")
    return Judgement(
        question_id=label.question_id,
        label=label.right,
        raw=why,
        judge_id=judge.id,
        prompt_sha256="",
        answer_sha256=sha256_text(answer.hypothesis),
    )


def person_labels(files: RunFiles) -> list[tuple[JudgeIdentity, dict[str, Judgement]]]:
    """Return the people who labelled answers of a run, each with the labels by question id."""
    people = [scores.judge for scores in files.metrics if is_person(scores.judge)]
    return [(judge, files.current_judgements(judge.id)) for judge in people]


def agreement_with_people(files: RunFiles, asked: RunQuestions) -> list[JudgeAgreement]:
    """Return the agreement of each person with each judge of a run, and with other people."""
    judges = [scores.judge for scores in files.metrics]
    people = {judge.id for judge in judges if is_person(judge)}
    return [pair for pair in judge_agreements(files, asked, judges) if people & {pair.a, pair.b}]
