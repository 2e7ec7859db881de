"""The benchmark and its judge alone."""

from pathlib import Path

from longmemeval_example.judge import pantry_rules

from longmemeval import load_dataset

PANTRY = Path(__file__).parents[1] / "longmemeval_example" / "pantry.json"


def test_its_file_is_known_by_its_shape() -> None:
    dataset = load_dataset(PANTRY).dataset
    assert (dataset.benchmark, len(dataset)) == ("pantry", 10)
    question = next(iter(dataset.questions()))
    assert dataset.gold(question.question_id).evidence_turns == ("m2:0",)
    assert [len(haystack.sessions) for haystack in dataset.haystacks()] == [5, 5]


def test_the_rules_of_its_judge() -> None:
    dataset, judge = load_dataset(PANTRY).dataset, pantry_rules()
    honey, *_, cheese = list(dataset.questions())[:5]
    answers = [(honey, "There were three jars."), (honey, "Two."), (cheese, "I don't know."), (cheese, "Brie.")]
    graded = [judge.grade(question, dataset.gold(question.question_id), text).label for question, text in answers]
    assert graded == [True, False, True, False]
