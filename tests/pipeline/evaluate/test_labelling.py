"""Labels of people: a judge's file of their own, never over another's, none lost, none given twice."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from longmemeval.errors import HarnessError
from longmemeval.judges.people import PREFIX, person_identity
from longmemeval.judges.template_set import judge_name
from longmemeval.pipeline.evaluate.labelling import PersonLabel, agreement_with_people, label_answer, person_labels
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.settings import Folders
from tests.pipeline.graded_runs import STRICT
from tests.report.report_runs import three_runs


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return three_runs(tmp_path)


def select_questions(folders: Folders, run_id: str = "good") -> RunQuestions:
    (run,) = load_graded([run_id], folders, judge="strict")
    return run.asked


def put(
    folders: Folders, question_id: str, right: bool, name: str = "Anna", why: str = "", *, blind: bool = False
) -> str:
    label = PersonLabel("good", question_id, right, why)
    return label_answer(label, select_questions(folders), folders, name=name, blind=blind).judge.id


def test_a_label_is_a_judgement_of_a_judge_of_its_own(folders: Folders) -> None:
    before = (folders.results_dir / "good" / "judgements" / f"{STRICT.id}.jsonl").read_bytes()
    judge_id = put(folders, "q0", False, why="  it names another colour ")
    (line,) = (folders.results_dir / "good" / "judgements" / f"{judge_id}.jsonl").read_bytes().splitlines()
    kept = msgspec.json.decode(line)
    assert (kept["question_id"], kept["label"], kept["raw"]) == ("q0", False, "it names another colour")
    assert judge_id.startswith(PREFIX)
    assert (folders.results_dir / "good" / "judgements" / f"{STRICT.id}.jsonl").read_bytes() == before
    ((judge, labels),) = person_labels(RunFiles(folders.results_dir / "good"))
    assert (judge.model, list(labels)) == ("person/Anna", ["q0"])


def test_a_labelled_run_verifies_and_a_changed_label_does_not(folders: Folders) -> None:
    judge_id = put(folders, "q1", True)

    def of_labels() -> list[str]:
        return [one for one in verify("good", folders=folders).problems if judge_id in one]

    assert of_labels() == []
    path = folders.results_dir / "good" / "judgements" / f"{judge_id}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"label":true', b'"label":false'))
    assert of_labels()


def test_a_second_label_of_one_person_is_refused_and_another_person_may_differ(folders: Folders) -> None:
    first = put(folders, "q0", True)
    with pytest.raises(HarnessError, match="has labelled this answer before, as right"):
        put(folders, "q0", False)
    assert put(folders, "q0", False, "Ben") != first
    assert put(folders, "q0", False, blind=True) not in (first, "")
    assert len(person_labels(RunFiles(folders.results_dir / "good"))) == 3


@pytest.mark.slow
def test_labels_given_at_once_are_all_kept_and_one_question_is_labelled_once(folders: Folders) -> None:
    asked = select_questions(folders)

    def give(number: int) -> str:
        # Every question from two windows.
        label = PersonLabel("good", list(asked.questions)[number // 2], True)
        try:
            return label_answer(label, asked, folders, name="Anna", blind=False).judge.id
        except HarnessError:
            return "refused"

    with ThreadPoolExecutor(6) as pool:
        given = list(pool.map(give, range(20)))
    assert given.count("refused") == 10
    ((_, labels),) = person_labels(RunFiles(folders.results_dir / "good"))
    assert len(labels) == 10
    (metrics,) = [one for one in RunFiles(folders.results_dir / "good").metrics if one.judge.id.startswith(PREFIX)]
    assert metrics.overall.correct == 10


def test_no_name_no_run_and_no_answer_are_refused(folders: Folders) -> None:
    with pytest.raises(HarnessError, match="under a name"):
        put(folders, "q0", True, " .. ")
    with pytest.raises(HarnessError, match="has no answer to 'q99'"):
        label_answer(PersonLabel("good", "q99", True), select_questions(folders), folders, name="Anna", blind=False)
    with pytest.raises(HarnessError, match="longer than 2,000"):
        put(folders, "q0", True, why="x" * 2_001)


def test_the_score_shown_stays_that_of_the_judge(folders: Folders) -> None:
    put(folders, "q0", False)
    (run,) = load_graded(["bad"], folders)
    assert run.metrics.judge == STRICT
    (graded,) = load_graded(["good"], folders)
    assert not graded.metrics.judge.id.startswith(PREFIX)
    (named,) = load_graded(["good"], folders, judge="person/Anna")
    assert named.metrics.judge.id.startswith(PREFIX)


def test_agreement_is_that_of_the_labels_both_gave(folders: Folders) -> None:
    put(folders, "q0", False)
    put(folders, "q1", True)
    files = RunFiles(folders.results_dir / "good")
    pairs = [one for one in agreement_with_people(files, select_questions(folders)) if STRICT.id in (one.a, one.b)]
    ((n, agreed, disputed),) = [
        (one.agreement.overall.n, one.agreement.overall.agreed, one.agreement.disputed) for one in pairs
    ]
    assert (n, agreed, disputed) == (2, 0.5, ("q0",))


def test_a_person_is_named_as_they_typed_it() -> None:
    assert judge_name(person_identity(" Ännchen  B. ", blind=True)) == "person/Ännchen B., blind"
    assert person_identity("Ä", blind=False).id != person_identity("Ö", blind=False).id
