"""What holds for every benchmark, on a small sample of each; a benchmark without a sample fails."""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS, benchmark_of, units_of
from longmemeval.benchmarks.data_files import problem_of_id
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.benchmarks.stats import dataset_stats
from longmemeval.core.files import sha256_file
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError
from longmemeval.judges.definition import JUDGE_DEFINITIONS, rule_names
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.judge_check.check import ground_of
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.verify.verify import verify
from longmemeval.storage.messages import haystack_messages
from tests.benchmarks.faults import CHANGES, FAULTS, Change
from tests.benchmarks.samples import SAMPLES, unchanged
from tests.pipeline.helpers import answer_all, folders_in
from tests.support import ROOT

NAMES = tuple(BENCHMARK_SPECS.built_in)
OF_EVERY_BENCHMARK = pytest.mark.parametrize("name", NAMES)


def read_everything(dataset: Dataset) -> None:
    for question in dataset.questions():
        dataset.haystack(question.haystack_id)
        dataset.gold(question.question_id)


def sample(name: str, folder: Path, change: Change = unchanged) -> Dataset:
    return load_dataset(SAMPLES[name].write(folder, change))


def spec(name: str) -> Benchmark:
    found: Benchmark = BENCHMARK_SPECS.get(name)
    return found


def test_no_benchmark_is_forgotten() -> None:
    assert set(NAMES) == set(SAMPLES) == set(FAULTS) == set(CHANGES)


@OF_EVERY_BENCHMARK
def test_its_files_are_recognised_and_are_those_of_one_benchmark(name: str, tmp_path: Path) -> None:
    path = SAMPLES[name].write(tmp_path, unchanged)
    dataset = load_dataset(path)
    assert (dataset.benchmark, benchmark_of(dataset).name, spec(name).name) == (name, name, name)
    assert len(dataset) == len(list(dataset.questions())) == SAMPLES[name].questions
    assert dataset.path == path
    assert all(file.is_file() for file in dataset.files)


@OF_EVERY_BENCHMARK
def test_questions_haystacks_and_gold_belong_together(name: str, tmp_path: Path) -> None:
    dataset = sample(name, tmp_path)
    haystacks = list(dataset.haystacks())
    assert [dataset.haystack(one.haystack_id) for one in haystacks] == haystacks
    ids = [question.question_id for question in dataset.questions()]
    assert len(set(ids)) == len(ids)
    assert not any(problem_of_id(one.haystack_id) for one in haystacks)
    assert {question.haystack_id for question in dataset.questions()} == {one.haystack_id for one in haystacks}
    for question in dataset.questions():
        gold, haystack = dataset.gold(question.question_id), dataset.haystack(question.haystack_id)
        dates = [session.date for session in haystack.sessions]
        assert dates == sorted(dates)
        assert gold.question_id == question.question_id
        assert gold.question_type == dataset.question_type(question.question_id)
        assert gold.question_type in spec(name).types.order or name == "conversations"
        assert set(gold.evidence_sessions) <= {session.session_id for session in haystack.sessions}
        assert set(gold.evidence_turns) <= {message.message_id for message in haystack_messages(haystack)}
    assert set(units_of(dataset, dataset.questions())) == set(ids)


@OF_EVERY_BENCHMARK
def test_nothing_of_the_gold_is_in_questions_and_haystacks(name: str, tmp_path: Path) -> None:
    dataset, hidden = sample(name, tmp_path), SAMPLES[name].hidden
    written = "".join(file.read_text() for file in dataset.files)
    assert all(word in written for word in hidden)
    questions = [structs.replace(question, question_id="") for question in dataset.questions()]
    shown = repr((questions, list(dataset.haystacks())))
    types = {dataset.question_type(question.question_id) for question in dataset.questions()}
    assert not [word for word in (*hidden, *types) if word in shown]


@OF_EVERY_BENCHMARK
def test_unknown_ids_are_told_with_the_nearest(name: str, tmp_path: Path) -> None:
    dataset = sample(name, tmp_path)
    question = next(dataset.questions())
    with pytest.raises(DataError, match=r"Unknown haystack '.*x'") as caught:
        dataset.haystack(f"{question.haystack_id}x")
    assert f"Did you mean '{question.haystack_id}'" in caught.value.fix
    for ask in (dataset.gold, dataset.question_type):
        with pytest.raises(DataError, match=r"Unknown question '.*x'") as caught:
            ask(f"{question.question_id}x")
        assert re.search(f"Did you mean.*{question.question_id}", caught.value.fix)
        with pytest.raises(DataError, match="Unknown question ''"):
            ask("")


@pytest.mark.parametrize(
    ("name", "change", "where", "what"),
    [pytest.param(name, *fault[1:], id=f"{name}: {fault[0]}") for name, faults in FAULTS.items() for fault in faults],
)
def test_a_fault_is_named_by_file_record_and_field(
    name: str, change: Change, where: str, what: str, tmp_path: Path
) -> None:
    path = SAMPLES[name].write(tmp_path, change)
    with pytest.raises(DataError) as caught:
        read_everything(load_dataset(path))
    for part in (str(path), SAMPLES[name].place, where, what):
        assert part in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "change"),
    [pytest.param(name, fault[1], id=f"{name}: {fault[0]}") for name, faults in FAULTS.items() for fault in faults],
)
def test_what_grading_would_refuse_is_refused_when_haystacks_are_read(
    name: str, change: Change, tmp_path: Path
) -> None:
    """So `prepare` refuses it, before anything is paid."""
    path = SAMPLES[name].write(tmp_path, change)
    with pytest.raises(DataError):
        list(load_dataset(path).haystacks())


DAMAGES: dict[str, tuple[Callable[[bytes], bytes | None], str | None]] = {
    "empty": (lambda whole: b"", "file is empty|truncated"),
    "no record": (lambda whole: b"[]", "empty array|no question|no batch|not an object|got `array`"),
    "more behind it": (lambda whole: whole + b" x", "trailing characters"),
    "UTF-16": (lambda whole: whole.decode().encode("utf-16"), "save it as UTF-8"),
    "no JSON": (lambda whole: b"nothing", "invalid character"),
    "a web page": (lambda whole: b"\n<!DOCTYPE html>", "is a web page|invalid character"),
    "gzip": (gzip.compress, r"compressed \(gzip\)|invalid character"),
    "a pointer": (lambda whole: b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer|invalid character"),
    "UTF-16 without mark": (lambda whole: whole.decode().encode("utf-16-le"), "save it as UTF-8"),
    "white space": (lambda whole: b" \n", "empty: it holds only white space|truncated"),
    "half a character": (lambda whole: whole.replace(b"e", rb"\ud83d"), "a surrogate alone|hex escape|surrogate pair"),
    "another value": (lambda whole: b"3", "not a JSON array|not an object|got `int`"),
    "a fifth": (lambda whole: whole[: len(whole) // 5], "truncated"),
    "half": (lambda whole: whole[: len(whole) // 2], "truncated"),
    "nearly all": (lambda whole: whole[: len(whole) * 99 // 100], "truncated"),
    "not Unicode": (lambda whole: whole.replace(b"e", b"\xff"), None),
    "nested too deeply": (lambda whole: b"[" * 100_000, "nested too deeply|not an object|got `array`"),
    "absent": (lambda whole: None, "No such file|has no|holds no|are not in their folder"),
}
"""What becomes of the bytes of a JSON file, and what is said of it."""


@OF_EVERY_BENCHMARK
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named(name: str, damage: str, tmp_path: Path) -> None:
    path = SAMPLES[name].write(tmp_path, unchanged)
    change, expected = DAMAGES[damage]
    for file in (file for file in load_dataset(path).files if file.suffix == ".json"):
        whole = file.read_bytes()
        if (damaged := change(whole)) is None:
            file.unlink()
        else:
            file.write_bytes(damaged)
        with pytest.raises(DataError, match=expected) as caught:
            read_everything(spec(name).load(path, ""))
        said = str(caught.value)
        assert str(file) in said or (str(path) in said and file.name in said)
        assert "looks truncated" not in said or f"after {len(damaged or b''):,} bytes" in said
        file.write_bytes(whole)


ORDERED = ("beam",)
"""Where the order of keys is that of the questions."""


@OF_EVERY_BENCHMARK
def test_its_hashes_see_content_and_ignore_form(name: str, tmp_path: Path) -> None:
    dataset = sample(name, tmp_path)
    before = dataset.sha256, dataset.content_sha256
    assert all(len(bytes.fromhex(one)) == 32 for one in before)
    assert dataset.path.is_dir() or len(dataset.files) > 1 or before[0] == sha256_file(dataset.path)
    assert (sample(name, tmp_path).sha256, sample(name, tmp_path).content_sha256) == before
    for file in (file for file in dataset.files if file.suffix == ".json"):
        document = json.loads(file.read_bytes())
        file.write_text(json.dumps(document if name in ORDERED else _turned(document), indent=3))
    again = load_dataset(dataset.path)
    assert again.content_sha256 == before[1]
    # Its questions are CSV.
    assert (again.sha256 != before[0]) == (name != "personamem")


def _turned(value: object) -> object:
    """The same with the keys of every object in the other order."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param(name, change, id=f"{name}-{number}")
        for name, changes in CHANGES.items()
        for number, change in enumerate(changes)
    ],
)
def test_its_content_hash_sees_every_change(name: str, change: Change, tmp_path: Path) -> None:
    before = sample(name, tmp_path)
    hashes = before.sha256, before.content_sha256
    after = sample(name, tmp_path, change)
    assert after.sha256 != hashes[0]
    assert after.content_sha256 != hashes[1]


@OF_EVERY_BENCHMARK
def test_its_stats_count_what_was_read(name: str, tmp_path: Path) -> None:
    dataset = sample(name, tmp_path)
    stats, haystacks = dataset_stats(dataset), list(dataset.haystacks())
    assert (stats.name, stats.sha256, stats.content_sha256) == (dataset.name, dataset.sha256, dataset.content_sha256)
    assert stats.questions == sum(count.total for count in stats.by_type.values()) == len(dataset)
    sessions = [session for haystack in haystacks for session in haystack.sessions]
    turns = sum(len(session.turns) for session in sessions)
    assert (stats.haystacks, stats.sessions, stats.turns) == (len(haystacks), len(sessions), turns)
    assert stats.stand_in_dates == spec(name).stand_in_dates
    assert (stats.quirks is None) == (spec(name).quirks is None)


@OF_EVERY_BENCHMARK
def test_its_judge_is_known(name: str) -> None:
    templates, _, model = spec(name).default_judge.rpartition("@")
    assert model in rule_names() or (templates or spec(name).prompts) in JUDGE_DEFINITIONS.names()
    assert spec(name).prompts in JUDGE_DEFINITIONS.names()


@OF_EVERY_BENCHMARK
def test_known_answers_of_both_kinds_are_made_and_the_same_again(name: str, tmp_path: Path) -> None:
    dataset, planting = sample(name, tmp_path), spec(name).planting
    assert planting is not None
    questions = list(dataset.questions())
    made = [list(planting.plants(ground_of(dataset, 0), questions)) for _ in range(2)]
    assert made[0] == made[1]
    assert {one.right for one in made[0]} == {True, False}
    assert {(one.kind, one.right) for one in made[0]} <= {(kind, one.right) for kind, one in planting.kinds.items()}
    assert {one.question_id for one in made[0]} <= {question.question_id for question in questions}


@OF_EVERY_BENCHMARK
def test_a_run_on_it_is_prepared_answered_graded_and_verified(name: str, tmp_path: Path) -> None:
    dataset, folders = sample(name, tmp_path), folders_in(tmp_path)
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    answer_all(dataset, folders)
    metrics = evaluate("r", options=EvaluateOptions(judge="offline/lexical"), folders=folders).metrics
    assert (metrics.overall.n, metrics.overall.not_evaluated) == (len(dataset), 0)
    assert verify("r", folders=folders).problems == ()


def test_decoders_of_right_answers_can_go() -> None:
    """A pattern in their union made msgspec 0.22 free what is no pointer, often only as Python ended."""
    code = (
        "import msgspec, longmemeval.benchmarks.data_files as d\nfor _ in range(3000): msgspec.json.Decoder(d.Answered)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
