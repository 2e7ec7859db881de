import pytest

from longmemeval.benchmarks.catalogue import benchmarks
from longmemeval.benchmarks.locomo.format import CATEGORIES
from longmemeval.benchmarks.longmemeval.loader import QUESTION_TYPES
from longmemeval.judges.question_types import ABILITIES, ANY_TYPES, OTHER
from longmemeval.records import Gold


def ability_of(gold: Gold, benchmark: str = "") -> str:
    """By the benchmark of that name, else by the one that has the type; FactConsolidation shares names with LoCoMo."""
    named = [one for one in benchmarks() if one.name == (benchmark or one.name)]
    first = [one for one in named if benchmark or one.name != "factconsolidation"]
    return next(one.types.ability_of(gold) for one in first if gold.question_type in one.types.abilities)


def gold(question_type: str, *, abstention: bool = False, facets: dict[str, int] | None = None) -> Gold:
    return Gold("q1", question_type, "an answer", (), (), abstention, facets=facets or {})


@pytest.mark.parametrize(
    ("question_type", "ability"),
    [
        ("single-session-user", "fact-recall"),
        ("single-session-assistant", "fact-recall"),
        ("single-session-preference", "preference"),
        ("multi-session", "multi-hop"),
        ("temporal-reasoning", "temporal"),
        ("knowledge-update", "knowledge-update"),
        ("single-hop", "fact-recall"),
        ("multi-hop", "multi-hop"),
        ("temporal", "temporal"),
        ("open-domain", "inference"),
        ("adversarial", "abstention"),
        ("open abstention", "abstention"),
        ("user-facts", "fact-recall"),
        ("assistant-facts", "fact-recall"),
        ("changing-facts", "knowledge-update"),
        ("abstention", "abstention"),
        ("preferences", "preference"),
        ("implicit-connections", "inference"),
    ],
)
def test_every_native_type_has_its_ability(question_type: str, ability: str) -> None:
    assert ability_of(gold(question_type)) == ability
    assert ability_of(gold(question_type, abstention=True)) == "abstention"


def test_the_loaders_types_are_all_known() -> None:
    abilities = {ability_of(gold(name)) for name in (*QUESTION_TYPES, *CATEGORIES.values())}
    assert abilities == set(ABILITIES)


@pytest.mark.parametrize(
    ("question_type", "evidence", "ability"),
    [
        ("user-facts", 1, "fact-recall"),
        ("user-facts", 2, "multi-hop"),
        ("assistant-facts", 6, "multi-hop"),
        # Each change is a message of its own: many of them do not make another ability.
        ("changing-facts", 3, "knowledge-update"),
        ("preferences", 2, "preference"),
        ("implicit-connections", 3, "inference"),
    ],
)
def test_several_evidence_messages_make_a_fact_multi_hop(question_type: str, evidence: int, ability: str) -> None:
    assert ability_of(gold(question_type, facets={"evidence": evidence, "context": 30})) == ability


def test_a_type_of_no_known_benchmark_is_other() -> None:
    for types in (ANY_TYPES, *(one.types for one in benchmarks())):
        assert types.ability_of(gold("my-own-type")) == OTHER
        assert types.ability_of(gold("my-own-type", abstention=True)) == "abstention"


@pytest.mark.parametrize(("question_type", "ability"), [("single-hop", "knowledge-update"), ("multi-hop", "multi-hop")])
def test_one_fact_of_a_list_that_changes_is_an_update(question_type: str, ability: str) -> None:
    assert ability_of(gold(question_type), "factconsolidation") == ability
