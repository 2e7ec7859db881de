"""Benchmarks of other packages beside the built-in ones: who claims a file, broken plug-ins, catalogues, judges."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from longmemeval.benchmarks import catalogue as specs
from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS, benchmark_of, catalogue, catalogue_entry, data_file
from longmemeval.benchmarks.registry import load_dataset, load_judge
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.errors import DataError, HarnessError
from longmemeval.judges.definition import JUDGE_DEFINITIONS
from tests.benchmarks.longmemeval.test_loader import make_record, write
from tests.models import Model, no_model

SPEC = """
import json
from datetime import datetime
from pathlib import Path

from longmemeval.benchmarks.in_memory import InMemoryDataset, read_records
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.judges.definition import JudgeDefinition
from longmemeval.judges.offline.rules import Verdict, rule_judge
from longmemeval.judges.question_types import QuestionTypes
from longmemeval.records import Gold, Haystack, Question, Session, Turn

DAY = datetime(2024, 1, 1)


def load(path, name):
    records = read_records(path)
    haystack = Haystack("h", (Session("s", DAY, "a day", (Turn("user", records[0]["said"]),)),))
    asked = (Question("q", records[0]["asked"], DAY, "a day", "h"), Gold("q", "riddle", "yes", ("s",), ("s:0",), False))
    return InMemoryDataset("riddles", path, name, [haystack], [asked])


def exact_judge():
    def grade(question, gold, said):
        return Verdict(said == gold.answer, "compared")

    return rule_judge("exact", grade, name="exact words", version="exact v1")


EXACT = JudgeDefinition(rules=exact_judge)
RIDDLES = Benchmark(
    name="riddles",
    title="Riddles",
    claims=lambda data: "said" in data.keys,
    load=load,
    shape="records with said and asked",
    licence="CC0",
    catalogue=Path(__file__).with_name("riddles.json"),
    types=QuestionTypes(order=("riddle",)),
    default_judge="exact",
)
GREEDY = Benchmark(name="greedy", title="Greedy", claims=lambda data: True, load=load)
TIMID = Benchmark(name="timid", title="Timid", claims=lambda data: data.no_such_thing, load=load)
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs the module above with some entry points; `install(group, names)`."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "plug_riddles.py").write_text(SPEC)
    entry = {"name": "riddles_small", "description": "One riddle", "file": "riddle.json"}
    (site / "riddles.json").write_text(json.dumps([entry]))
    (site / "riddle.json").write_text(json.dumps([{"said": "It is yes.", "asked": "Is it?"}]))
    info = site / "plug_riddles-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-riddles\nVersion: 1.2\n")
    monkeypatch.syspath_prepend(str(site))
    for registry in (BENCHMARK_SPECS, JUDGE_DEFINITIONS):
        monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.setattr(specs, "_loaded", specs._loaded.__wrapped__)
    monkeypatch.delitem(sys.modules, "plug_riddles", raising=False)

    def put(benchmarks: str, judges: str = "") -> None:
        lines = ["[longmemeval.benchmarks]", *benchmarks.split("; "), "[longmemeval.judges]", *judges.split("; ")]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")

    return put


def test_its_data_is_recognised_and_listed(install: Install, tmp_path: Path) -> None:
    install("riddles = plug_riddles:RIDDLES", "exact = plug_riddles:EXACT")
    entry = catalogue_entry("riddles_small")
    assert list(catalogue())[-1] == "riddles_small"
    assert (entry.licence, data_file(entry, tmp_path)) == ("CC0", tmp_path / "site" / "riddle.json")
    for named in ("riddles_small", str(tmp_path / "site" / "riddle.json")):
        dataset = load_dataset(named, tmp_path)
        assert (dataset.benchmark, len(dataset), benchmark_of(dataset).title) == ("riddles", 1, "Riddles")
        assert dataset.question_type("q") == "riddle"
    # What was there before is recognised as before.
    assert load_dataset(write(tmp_path / "mine.json", make_record())).benchmark == "longmemeval"


def test_common_keys_are_nobodys(install: Install, tmp_path: Path) -> None:
    install("riddles = plug_riddles:RIDDLES", "")
    file = tmp_path / "data.json"
    record = {"asked": "x" * 3_000_000, "said": "yes", "question": "?", "answer": "!", "question_id": "q"}
    file.write_text(json.dumps([record]))
    assert load_dataset(file).benchmark == "riddles"
    file.write_text('[{"question": "?", "answer": "!"}]')
    with pytest.raises(DataError, match="the keys of its first record are"):
        load_dataset(file)


def test_two_that_claim_a_file_are_both_named(install: Install, tmp_path: Path) -> None:
    install("greedy = plug_riddles:GREEDY; riddles = plug_riddles:RIDDLES")
    with pytest.raises(DataError, match="Several benchmarks claim this data: longmemeval, greedy"):
        load_dataset(write(tmp_path / "mine.json", make_record()))
    with pytest.raises(DataError, match="claim this data: greedy, riddles"):
        load_dataset(tmp_path / "site" / "riddle.json")


def test_one_that_is_broken_breaks_nothing_and_is_named_where_it_might_have_helped(
    install: Install, tmp_path: Path
) -> None:
    install("broken = plug_riddles:NOTHING; timid = plug_riddles:TIMID")
    assert load_dataset(write(tmp_path / "mine.json", make_record())).benchmark == "longmemeval"
    with pytest.raises(DataError, match=r"any known benchmark.*LongMemEval: records.*plug_riddles has no 'NOTHING'"):
        load_dataset(tmp_path / "site" / "riddle.json")


def test_faulty_data_is_told_of_and_no_traceback(install: Install, tmp_path: Path) -> None:
    install("riddles = plug_riddles:RIDDLES", "")
    file = tmp_path / "faulty.json"
    file.write_text('[{"said": "yes"}]')
    with pytest.raises(DataError, match=r"The loader of Riddles failed with KeyError: 'asked'.*faulty.json"):
        load_dataset(file)


def test_options_of_a_loader_are_its_own(install: Install, tmp_path: Path) -> None:
    install("riddles = plug_riddles:RIDDLES", "")
    with pytest.raises(HarnessError, match="Riddles has no option 'captions'"):
        load_dataset(tmp_path / "site" / "riddle.json", captions=False)


def test_rules_and_question_types_of_a_package_are_known(install: Install, tmp_path: Path) -> None:
    install("riddles = plug_riddles:RIDDLES", "exact = plug_riddles:EXACT")
    riddles: Benchmark = BENCHMARK_SPECS.get("riddles")
    assert load_judge(riddles.default_judge, no_model, benchmark=riddles).identity.model == "exact"
    text = "{question} {hypothesis}"
    content = {"name": "mine", "reply": "yes-no", "max_tokens": 5, "templates": {"a": text, "b": text}}
    file = tmp_path / "set.json"
    for kind, message in (("riddle", ""), ("ridle", "Unknown question type 'ridle'.*Did you mean 'riddle'")):
        file.write_text(json.dumps(content | {"choose": {"default": "a", "abstention": "a", kind: "b"}}))
        spec = f"{file}@openai/gpt-4o"
        if not message:
            assert load_judge(spec, Model, benchmark=riddles).identity.templates == "mine"
            continue
        with pytest.raises(HarnessError, match=message):
            load_judge(spec, Model, benchmark=riddles)
