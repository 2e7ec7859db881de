import pytest

from longmemeval.measures.losses import Stage, evidence_recall, stage_of
from longmemeval.records import Answer, Gold

STORED = {"s1", "s2", "s:3", "s1:0", "s1:1", "s2:0", "s:3:0", "s9:0"}


def gold(turns: tuple[str, ...], sessions: tuple[str, ...] = ("s1", "s2")) -> Gold:
    return Gold("q", "multi-session", "an answer", sessions, turns, False)


def answer(recalled: tuple[str, ...] = (), cut: tuple[str, ...] = ()) -> Answer:
    return Answer("q", "In May.", "ok", recalled, cut)


def stage(question: Gold, given: Answer | None, disputed: bool = False) -> Stage:
    return stage_of(question, given, stored=STORED.__contains__, disputed=disputed)


TURNS = gold(("s1:1", "s2:0"))
SESSIONS = gold((), ("s1", "s:3"))


@pytest.mark.parametrize(
    ("question", "given", "expected", "recall"),
    [
        (TURNS, answer(("s9:0", "s2:0", "s1:1")), "in the prompt", 1.0),
        (TURNS, answer(("s2:0", "s1:0")), "not retrieved", 0.5),
        (TURNS, answer(), "not retrieved", 0.0),
        (TURNS, answer(("s2:0",), ("s9:0", "s1:1")), "retrieved but cut", 0.5),
        # One was cut, the other never found: finding it comes first.
        (TURNS, answer((), ("s1:1",)), "not retrieved", 0.0),
        # Cut in one place, shown in another.
        (TURNS, answer(("s1:1", "s2:0"), ("s1:1",)), "in the prompt", 1.0),
        (gold(("s1:1", "s2:7")), answer(("s1:1",), ("s2:7",)), "not stored", 0.5),
        # Without labelled turns any message of the session will do; session ids may hold colons.
        (SESSIONS, answer(("s1:7", "s:3:0")), "in the prompt", 1.0),
        (SESSIONS, answer(("s1:7",), ("s:3:4",)), "retrieved but cut", 0.5),
        (SESSIONS, answer(("s1:7",), ("s:4",)), "not retrieved", 0.5),
        (gold((), ("s1", "s4")), answer(("s1:0",)), "not stored", 0.5),
        (gold((), ()), answer(("s1:0",)), "no evidence label", None),
    ],
)
def test_the_first_stage_that_lacks_evidence(
    question: Gold, given: Answer, expected: Stage, recall: float | None
) -> None:
    assert stage(question, given) == expected
    assert evidence_recall(question, given) == recall


def test_judges_who_disagree_leave_only_what_reached_the_prompt_disputed() -> None:
    assert stage(TURNS, answer(("s1:1", "s2:0")), disputed=True) == "disputed"
    assert stage(TURNS, answer(("s1:1",)), disputed=True) == "not retrieved"


@pytest.mark.parametrize("given", [None, Answer("q", "", "error", error="429")])
@pytest.mark.parametrize("question", [TURNS, gold((), ())])
def test_what_was_not_answered_was_not_lost_by_the_memory(given: Answer | None, question: Gold) -> None:
    assert stage(question, given) == "not answered"


def test_nothing_reached_the_prompt_of_a_question_without_an_answer() -> None:
    assert evidence_recall(TURNS, None) == 0.0
    assert evidence_recall(TURNS, Answer("q", "", "error")) == 0.0
    assert evidence_recall(gold((), ()), None) is None


def test_only_the_evidence_is_looked_up_in_the_store() -> None:
    asked: list[str] = []

    def stored(one: str) -> bool:
        asked.append(one)
        return True

    stage_of(TURNS, answer(("s9:0",)), stored=stored, disputed=False)
    assert set(asked) == {"s1:1", "s2:0"}
