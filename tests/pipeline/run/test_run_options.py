"""What a run can be told: LoCoMo's own protocol, a threshold for abstaining, repeats, a money limit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from longmemeval.benchmarks.locomo.judge import LOCOMO_F1
from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.benchmarks.locomo.protocol import load_texts
from longmemeval.core.files import sha256_text
from longmemeval.errors import HarnessError, SpendingLimitError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.llm.costs import price, spent_in
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.memory.configuration import as_configuration
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions, RunPlan
from longmemeval.pipeline.run.repeats import run_repeats
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.reading.configuration import reading_configuration
from longmemeval.reading.reader import ABSTENTION
from longmemeval.report.documents import evaluation_document
from longmemeval.report.write import ReportOptions, render_report
from longmemeval.results.formats.export import export_questions
from longmemeval.results.graded.graded_run import summarise
from longmemeval.settings import Folders
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.benchmarks.locomo.test_texts import write as write_texts
from tests.benchmarks.longmemeval.test_loader import write
from tests.pipeline.helpers import MODEL, answers, colours, compare, folders_in, manifest, prepared_colours
from tests.server import ModelServer
from tests.support import json_lines, longmemeval


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ModelServer(lambda body: "(a)") as server:
        yield server


@pytest.fixture
def talks(tmp_path: Path) -> tuple[LocomoDataset, Folders]:
    dataset, folders = LocomoDataset(write(tmp_path / "talks.json", make_conversation())), folders_in(tmp_path)
    prepare(dataset, ["full-history"], options=PrepareOptions(jobs=1), folders=folders)
    return dataset, folders


KEY = "sk-not-a-real-key-0123"
OPTIONS = ("Not mentioned in the conversation", "Bo's")


def official(server: ModelServer, seed: int) -> RunOptions:
    return RunOptions(
        protocol="official", seed=seed, run_id=f"r{seed}", model_options=ModelOptions(api_base=server.url)
    )


def test_locomos_protocol_offers_the_options_and_reads_the_letter(
    talks: tuple[LocomoDataset, Folders], server: ModelServer
) -> None:
    dataset, folders = talks
    offered = set()
    for seed in range(4):
        run(dataset, "full-history", "openai/gpt-4o-mini", options=official(server, seed), folders=folders)
        prompts = {
            line["question_id"]: line["messages"][0]["content"]
            for line in json_lines(folders.results_dir / f"r{seed}" / "prompts.jsonl")
        }
        asked = prompts["conv-1/q4"].rsplit("Whose?", 1)[1]
        assert "Bo's" in asked
        assert "Not mentioned in the conversation" in asked
        right_is_a = asked.index("Not mentioned") < asked.index("Bo's")
        offered.add(right_is_a)
        metrics = evaluate(f"r{seed}", folders=folders).metrics
        assert metrics.judge.model == LOCOMO_F1
        assert metrics.by_type["adversarial"].accuracy == float(right_is_a)
        assert "approximate date" in prompts["conv-1/q1"].rsplit("When?", 1)[1]
        assert not any("Bo's" in prompt for name, prompt in prompts.items() if name != "conv-1/q4")
        assert manifest(folders, f"r{seed}")["settings"]["protocol"] == {"name": "official", "seed": seed}
        assert manifest(folders, f"r{seed}")["settings"]["reading"]["method"] == "short"
        assert verify(f"r{seed}", folders=folders).problems == ()
    assert offered == {True, False}


def test_texts_of_a_file_are_sent_recorded_and_told_of(
    tmp_path: Path, talks: tuple[LocomoDataset, Folders], server: ModelServer
) -> None:
    dataset, folders = talks
    file = write_texts(tmp_path / "texts.json")
    common = ("run", "--dataset", dataset.path, "--memory", "full-history", "--model", "openai/gpt-4o-mini")
    given = (*common, "--api-base", server.url, "--protocol", "official", "--template", file, "--run-id", "given")
    longmemeval(*given, cwd=tmp_path, OPENAI_API_KEY=KEY)
    prompts = {
        line["question_id"]: line["messages"][0]["content"]
        for line in json_lines(folders.results_dir / "given" / "prompts.jsonl")
    }
    assert prompts["conv-1/q1"].endswith("\n\n\nAnswer in a few words.\n\nAsked: When? Name a day. Answer:\n")
    # No question date, as in the official prompt.
    assert "The question is asked on" not in prompts["conv-1/q1"]
    tail = prompts["conv-1/q4"].rpartition("\n\n\nAnswer.\n\nAsked: Whose? Which? ")[2]
    assert tail in {f"(a) {first} (b) {second}.  Answer:\n" for first, second in (OPTIONS, OPTIONS[::-1])}
    settings = manifest(folders, "given")["settings"]
    texts = load_texts(file)
    assert settings["protocol"]["texts_sha256"] == texts.sha256
    assert settings["reading"]["options_template"] == sha256_text(texts.adversarial_prompt)
    evaluated = longmemeval("evaluate", "given", cwd=tmp_path)
    said = "prompts of a file that are not the official ones, not comparable with published figures"
    assert said in " ".join(evaluated.stdout.split())
    assert verify("given", folders=folders).problems == ()
    # Going on with other texts, or with ours, is another run.
    other = write_texts(tmp_path / "other.json", date_hint="Name a year.")
    refused = longmemeval(
        *given[:-4], "--template", other, "--resume", "given", cwd=tmp_path, code=2, OPENAI_API_KEY=KEY
    )
    assert "protocol.texts.date_hint: was 'Name a day.', now 'Name a year.'" in " ".join(refused.stderr.split())


def test_wherever_a_score_of_the_protocol_is_shown_our_words_are_told_of(
    talks: tuple[LocomoDataset, Folders], server: ModelServer
) -> None:
    dataset, folders = talks
    run(dataset, "full-history", "openai/gpt-4o-mini", options=official(server, 0), folders=folders)
    evaluation = evaluate("r0", folders=folders)
    sentence = "official metric, our prompts, not comparable with published figures"
    document = evaluation_document(summarise(evaluation.files, evaluation.asked, evaluation.metrics, folders))
    assert sentence in document["protocol_note"]
    assert any(sentence in note for note in document["notes"])
    assert sentence in json_lines(folders.results_dir / "index.jsonl")[0]["protocol_note"]
    assert sentence in export_questions("r0", folders=folders).protocol_note
    for form in ("html", "md"):
        assert sentence in render_report(["r0"], options=ReportOptions(format=form), folders=folders)


def test_texts_are_for_the_official_protocol_alone(
    tmp_path: Path, talks: tuple[LocomoDataset, Folders], server: ModelServer
) -> None:
    dataset, _ = talks
    file = write_texts(tmp_path / "texts.yaml")
    common = ("run", "--dataset", dataset.path, "--memory", "full-history", "--model", MODEL, "--template", file)
    refused = longmemeval(*common, cwd=tmp_path, code=2)
    assert "The texts of a protocol are for --protocol official" in " ".join(refused.stderr.split())
    refused = longmemeval(*common, "--protocol", "official", "--reading", "con", cwd=tmp_path, code=2)
    assert "have no place for notes" in " ".join(refused.stderr.split())
    assert not (tmp_path / "results").exists()


def test_a_benchmark_without_such_a_protocol_is_named(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    with pytest.raises(HarnessError, match="LongMemEval has no official protocol of answering"):
        run(dataset, "last-k", MODEL, options=RunOptions(protocol="official"), folders=folders)


@pytest.mark.slow
def test_weak_recall_is_answered_without_a_call(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, memory="bm25")
    run(dataset, "bm25", MODEL, options=RunOptions(run_id="always"), folders=folders)
    scores = {line["question_id"]: line["top_score"] for line in answers(folders, "always")}
    threshold = sorted(scores.values())[1] + 1e-9
    reading = reading_configuration(abstain_below=threshold)
    run(dataset, "bm25", MODEL, options=RunOptions(run_id="careful", reading=reading), folders=folders)
    careful = {line["question_id"]: line for line in answers(folders, "careful")}
    for question_id, score in scores.items():
        line = careful[question_id]
        assert (line["hypothesis"] == ABSTENTION) == (score < threshold)
        assert (line["usage"]["calls"] == 0) == (score < threshold)
    abstained = next(line for line in careful.values() if line["hypothesis"] == ABSTENTION)
    assert abstained["notes"][-1].startswith("abstained: the best recall score")
    assert abstained["cut_ids"]
    assert manifest(folders, "careful")["settings"]["abstain_below"] == threshold
    metrics = evaluate("careful", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders).metrics
    assert metrics.abstaining is not None
    assert metrics.abstaining.abstained >= 2
    assert verify("careful", folders=folders).problems == ()


@pytest.mark.slow
def test_repeats_are_told_from_sampling(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    plan = RunPlan(
        data=dataset,
        configuration=as_configuration("last-k"),
        model=MODEL,
        options=RunOptions(run_id="same"),
        folders=folders,
    )
    reports = run_repeats(plan, 3)
    assert [report.run_id for report in reports] == ["same-r1", "same-r2", "same-r3"]
    assert ["repeat" in manifest(folders, report.run_id)["settings"] for report in reports] == [False, True, True]
    for report in reports:
        evaluate(report.run_id, options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    [group] = compare([report.run_id for report in reports], folders=folders).repeats
    assert group.run_ids == ("same-r1", "same-r2", "same-r3")
    assert (group.spread.n, group.spread.sd) == (3, 0.0)
    again = run_repeats(plan, 3)
    assert [report.newly_answered for report in again] == [0, 0, 0]


def test_command_repeats_and_says_what_can_be_told_from_noise(tmp_path: Path) -> None:
    dataset, _ = prepared_colours(tmp_path)
    done = longmemeval(
        "run", "--dataset", dataset.path, "--memory", "last-k", "--model", MODEL, "--run-id", "x", "--repeat", "2",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.stderr.count("4 questions are too few for a significant difference") == 1
    assert {path.name for path in (tmp_path / "results").iterdir()} == {"x-r1", "x-r2"}
    refused = longmemeval(
        "run", "--dataset", dataset.path, "--memory", "last-k", "--model", MODEL, "--resume", "x-r1", "--repeat", "2",
        cwd=tmp_path, code=2,
    )  # fmt: skip
    assert "--resume continues one run" in " ".join(refused.stderr.split())


def test_the_money_limit_stops_before_it_is_passed_and_the_run_goes_on_with_more(
    tmp_path: Path, server: ModelServer
) -> None:
    dataset, folders = colours(tmp_path / "d.json", 4), folders_in(tmp_path)
    prepare(dataset, ["none"], folders=folders)
    model = "openai/gpt-4o-mini"
    # Room for one call at its dearest: 500 tokens of answer and a short prompt.
    limit = SpendingLimit((price(model, 300, 500) or 0.0) * 1.1)

    def options(spending: SpendingLimit | None) -> RunOptions:
        return RunOptions(run_id="r", spending=spending, concurrency=1, model_options=ModelOptions(api_base=server.url))

    server.responder = lambda body: "long " * 400
    with pytest.raises(SpendingLimitError, match=r"--max-cost") as caught:
        run(dataset, "none", model, options=options(limit), folders=folders)
    begun = len(server.chat_requests)
    assert 0 < begun < 4
    assert f"run 'r': {begun} of 4 answers are kept" in str(caught.value)
    assert spent_in(folders.results_dir / "r" / "spending.jsonl") <= limit.dollars
    assert manifest(folders)["status"] == "incomplete"
    report = run(dataset, "none", model, options=options(None), folders=folders)
    assert (report.answered, report.newly_answered) == (4, 4 - begun)
    assert manifest(folders)["status"] == "completed"
