"""Graded runs made by hand: every label is the test's own, so that what a comparison must find can be counted."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from longmemeval.core.files import sha256_bytes, sha256_text
from longmemeval.dataset import Dataset
from longmemeval.judges.protocol import JudgeIdentity, judge_id
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.records import Answer, Judgement
from longmemeval.results.lines import judgements_file
from longmemeval.results.manifest import FORMAT, RunManifest, dataset_record, read_manifest, write_manifest
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.checked import write_metrics
from longmemeval.results.selection import Selection
from longmemeval.results.settings import AnswerSettings
from longmemeval.settings import Folders
from longmemeval.storage.memory_store import MemoryStore


def judge_named(name: str, metric: str = "accuracy") -> JudgeIdentity:
    """A judge of the tests' own, under the id that follows from what it is."""
    templates_sha256, model = sha256_text(name), f"test/{name}"
    return JudgeIdentity(
        id=judge_id(name, templates_sha256, model, {}, OWN_ENDPOINT),
        model=model,
        templates="by hand",
        templates_sha256=templates_sha256,
        parameters={},
        official=False,
        metric=metric,
        endpoint=OWN_ENDPOINT,
    )


STRICT, LENIENT, F1 = judge_named("strict"), judge_named("lenient"), judge_named("f1", "F1")

Credit = bool | float | None
"""A label, a score where the judge gives scores, or None: not evaluated."""


def answer_settings(plain: Mapping[str, Any]) -> AnswerSettings:
    """Settings from plain values; of a memory and an embedder what a test does not care about may be left out."""
    settings = {"kind": "run", **plain, "memory": {"preset": "last-k", "parameters": {}, **plain["memory"]}}
    if settings["embedder"]:
        settings["embedder"] = {"fingerprint": "f", **settings["embedder"]}
    return msgspec.convert(settings, AnswerSettings)


def graded_run(
    dataset: Dataset,
    folders: Folders,
    run_id: str,
    credits: Sequence[Credit] | Mapping[str, Credit],
    *,
    judge: JudgeIdentity = STRICT,
    status: Literal["completed", "interrupted"] = "completed",
    settings: Mapping[str, Any] | None = None,
    served_model: str = "",
    sweep: str | None = None,
) -> Path:
    """A run that answered the questions of `credits` (a list: the first ones of the data set), graded by `judge`."""
    ids = [question.question_id for question in dataset.questions()]
    if not isinstance(credits, Mapping):
        credits = dict(zip(ids, credits, strict=False))
    reading = (settings or {}).get("reading", {"method": "direct", "history_format": "nl"})
    manifest = RunManifest(
        format=FORMAT,
        run_id=run_id,
        status=status,
        dataset=dataset_record(dataset),
        settings=answer_settings(
            {
                "memory": {"name": "last-k", "preset": "last-k", "parameters": {}},
                "reads_gold": False,
                "model": {"spec": "offline/extractive"},
                "preparation": "default",
                "embedder": None,
                **(settings or {}),
                "reading": {"context_window": None, **reading},
            }
        ),
        question_ids=tuple(credits),
        fixtures={question.haystack_id: {} for question in dataset.questions() if question.question_id in credits},
        environment={},
        started_at="2026-01-01T00:00:00+00:00",
        selection=Selection() if credits.keys() == set(ids) else Selection(question_ids=tuple(credits)),
        sweep=sweep,
    )
    folder = folders.results_dir / run_id
    folder.mkdir(parents=True)
    write_manifest(folder, manifest)
    answers = [Answer(question_id=name, hypothesis="said", status="ok", prompt_tokens=100) for name in credits]
    (folder / "answers.jsonl").write_bytes(b"".join(msgspec.json.encode(answer) + b"\n" for answer in answers))
    grade(dataset, folders, run_id, credits, judge=judge, served_model=served_model)
    return folder


def record_messages(folder: Path, dataset: Dataset) -> None:
    """Give a run's manifest the hashes of the messages that `prepare` makes of its haystacks."""
    manifest = read_manifest(folder)
    stores = {name: MemoryStore.from_haystack(dataset.haystack(name)) for name in manifest.fixtures}
    read = {name: {"db": sha256_bytes(store.persist())} for name, store in stores.items()}
    write_manifest(folder, msgspec.structs.replace(manifest, fixtures=read))


def grade(
    dataset: Dataset,
    folders: Folders,
    run_id: str,
    credits: Mapping[str, Credit],
    *,
    judge: JudgeIdentity = STRICT,
    served_model: str = "",
) -> None:
    """Give a run the judgements of one more judge."""
    folder = folders.results_dir / run_id
    manifest = read_manifest(folder)
    answers = msgspec.json.decode(b"[" + b",".join((folder / "answers.jsonl").read_bytes().splitlines()) + b"]")
    said = {answer["question_id"]: answer["hypothesis"] for answer in answers if answer["status"] == "ok"}
    path = judgements_file(folder, judge.id)
    path.parent.mkdir(exist_ok=True)
    judged = [_judgement(name, credit, judge, said[name]) for name, credit in credits.items() if name in said]
    lines = [msgspec.structs.replace(one, served_model=served_model) for one in judged]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    write_metrics(folders.results_dir, RunFiles(folder), RunQuestions(manifest, dataset), judge)


def _judgement(question_id: str, credit: Credit, judge: JudgeIdentity, hypothesis: str) -> Judgement:
    return Judgement(
        question_id=question_id,
        label=None if credit is None else credit == 1,
        raw={True: "yes", False: "no", None: ""}[credit if credit is None else credit == 1],
        judge_id=judge.id,
        prompt_sha256="",
        answer_sha256=sha256_text(hypothesis),
        score=credit if judge.metric != "accuracy" else None,
    )


def labels(right: int, wrong: int = 0) -> list[bool]:
    """So many right answers, then so many wrong ones."""
    return [True] * right + [False] * wrong


def ids(comparison: Comparison) -> list[str]:
    """The runs in their order."""
    return [run.summary.run_id for run in comparison.runs]
