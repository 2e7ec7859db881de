import json
from collections.abc import Callable
from pathlib import Path

import pytest

from longmemeval.benchmarks import registry as judges
from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.errors import FatalModelError, HarnessError
from longmemeval.judges.definition import rule_names
from longmemeval.judges.protocol import Judge
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import load_chat_model
from tests.models import Model, no_model


def load_judge(
    spec: str, factory: Callable[[str], ChatModel], benchmark: str = "longmemeval", votes: int = 1, repeat: int = 1
) -> Judge:
    return judges.load_judge(spec, factory, benchmark=BENCHMARK_SPECS.get(benchmark), votes=votes, repeat=repeat)


def default_judge(benchmark: str) -> str:
    return BENCHMARK_SPECS.get(benchmark).default_judge


RULE_SPECS = [
    *("offline/lexical", "offline/locomo-f1", "offline/mem0-f1", "offline/mem0-bleu1", "offline/personamem"),
    *("offline/factconsolidation", "offline/factconsolidation-exact", "offline/factconsolidation-f1"),
    "offline/factconsolidation-current",
]


@pytest.mark.parametrize("spec", RULE_SPECS)
def test_rules_need_no_model(spec: str) -> None:
    assert load_judge(spec, no_model).identity.model == spec
    assert set(rule_names()) == set(RULE_SPECS)


@pytest.mark.parametrize("spec", ["openai/gpt-4o-2024-08-06", "ollama/llama3.1", "offline/scripted:replies.jsonl"])
@pytest.mark.parametrize(
    ("benchmark", "templates"), [("longmemeval", "LongMemEval"), ("locomo", "lenient"), ("convomem", "convomem")]
)
def test_a_chat_model_grades_with_the_prompts_of_the_benchmark(spec: str, benchmark: str, templates: str) -> None:
    identity = load_judge(spec, Model, benchmark=benchmark).identity
    assert (identity.templates, identity.model) == (templates, spec)


@pytest.mark.parametrize("name", ["longmemeval", "convomem", "lenient", "strict"])
def test_a_set_before_the_model_takes_the_place_of_the_benchmarks_own(name: str) -> None:
    identity = load_judge(f"{name}@vertex_ai/claude-3-5-sonnet@20240620", Model, benchmark="locomo").identity
    assert (identity.templates.lower(), identity.model) == (name, "vertex_ai/claude-3-5-sonnet@20240620")


@pytest.mark.parametrize(
    "model", ["jamba-1.5-large@001", "vertex_ai/claude-3-5-sonnet@20240620", "cloudflare/@cf/meta/llama-2"]
)
def test_the_name_of_a_model_can_hold_an_at_sign(model: str) -> None:
    identity = load_judge(model, Model, benchmark="locomo").identity
    assert (identity.templates, identity.model) == ("lenient", model)


@pytest.mark.parametrize("ending", [".json", ".yaml", ".yml"])
def test_a_file_before_the_model_is_a_set(ending: str, tmp_path: Path) -> None:
    text = "{question} {hypothesis}"
    content = {
        "name": "mine",
        "reply": "yes-no",
        "max_tokens": 5,
        "templates": {"any": text},
        "choose": {"default": "any", "abstention": "any"},
    }
    path = tmp_path / f"set{ending}"
    path.write_text(json.dumps(content))  # YAML is a superset of JSON
    identity = load_judge(f"{path}@openai/gpt-4o", Model).identity
    assert (identity.templates, identity.model, identity.official) == ("mine", "openai/gpt-4o", False)


def test_a_faulty_set_is_refused_before_a_model_is_made(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="No such file"):
        load_judge(f"{tmp_path}/none.json@openai/gpt-4o", no_model)


def test_only_the_official_prompts_on_the_official_model_are_official() -> None:
    specs = ["openai/gpt-4o-2024-08-06", "longmemeval@gpt-4o-2024-08-06", "strict@openai/gpt-4o-2024-08-06"]
    assert [load_judge(spec, Model).identity.official for spec in specs] == [True, True, False]
    assert load_judge(specs[0], Model).identity == load_judge(specs[1], Model).identity


def test_the_defaults_are_the_authors_judges() -> None:
    longmemeval = load_judge(default_judge("longmemeval"), Model, benchmark="longmemeval").identity
    assert (longmemeval.model, longmemeval.official) == ("openai/gpt-4o-2024-08-06", True)
    locomo = load_judge(default_judge("locomo"), no_model, benchmark="locomo").identity
    assert (locomo.model, locomo.official) == ("offline/locomo-f1", True)
    convomem = load_judge(default_judge("convomem"), Model, benchmark="convomem").identity
    assert (convomem.templates, convomem.model) == ("convomem", "gemini/gemini-2.5-flash")


def test_a_model_is_no_judge_of_rules() -> None:
    with pytest.raises(HarnessError, match=r"Unknown judge 'offline/extractive'.*Valid: .*offline/lexical"):
        load_judge("offline/extractive", no_model)


@pytest.mark.parametrize("spec", ["offline/lexcial", "offline/lexical:strict"])
def test_a_misspelt_offline_judge_is_refused(spec: str) -> None:
    with pytest.raises(HarnessError, match="Did you mean 'offline/lexical'"):
        load_judge(spec, no_model)


@pytest.mark.parametrize("spec", ["", "offline/", "strict@offline/lexical"])
def test_what_names_no_judge_is_refused(spec: str) -> None:
    with pytest.raises(HarnessError, match=r"Unknown judge .*Valid: .*offline/lexical"):
        load_judge(spec, no_model)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("lenien@openai/gpt-4o", "Unknown template set 'lenien'.*Did you mean 'lenient'"),
        ("set.toml@openai/gpt-4o", "Unknown template set 'set.toml'.*a file that ends in .json or .yaml or .yml"),
        ("@openai/gpt-4o", "Unknown template set ''"),
        ("strict@", "'strict@' has no model. Write strict@MODEL"),
    ],
)
def test_a_faulty_spec_with_a_set_is_refused(spec: str, message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        load_judge(spec, no_model)


def test_an_unknown_model_is_refused_by_the_factory() -> None:
    with pytest.raises(FatalModelError):
        load_judge("strict@nobody/gpt-4o", load_chat_model)


def test_votes_and_repeats_become_parameters() -> None:
    plain = load_judge("strict@openai/gpt-4o", Model).identity
    voted = load_judge("strict@openai/gpt-4o", Model, votes=3).identity
    again = load_judge("strict@openai/gpt-4o", Model, votes=3, repeat=2).identity
    assert load_judge("strict@openai/gpt-4o", Model, votes=1, repeat=1).identity == plain
    assert voted.parameters == plain.parameters | {"votes": 3}
    assert again.parameters == plain.parameters | {"votes": 3, "repeat": 2}
    assert len({plain.id, voted.id, again.id}) == 3


@pytest.mark.parametrize(("votes", "repeat"), [(2, 1), (4, 1), (0, 1), (-1, 1), (1, 0)])
def test_counts_that_make_no_sense_are_refused(votes: int, repeat: int) -> None:
    with pytest.raises(HarnessError):
        load_judge("openai/gpt-4o", Model, votes=votes, repeat=repeat)


@pytest.mark.parametrize("spec", RULE_SPECS)
@pytest.mark.parametrize(("votes", "repeat"), [(3, 1), (1, 2)])
def test_rules_are_asked_once(spec: str, votes: int, repeat: int) -> None:
    with pytest.raises(HarnessError, match="gives the same labels"):
        load_judge(spec, no_model, votes=votes, repeat=repeat)
