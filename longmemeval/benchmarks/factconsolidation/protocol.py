"""The way MemoryAgentBench asks FactConsolidation's questions: `utils/templates.py` at 455306d, verbatim (MIT).

| form | messages sent after the system message |
|---|---|
| long-context | the whole list in wrapped chunks of 4,096 tokens, then the question |
| rag | `Memory 1:` and the best item, and so on, then the question |

The first form is for a memory that recalls everything, the second for any other. The answer has at most 10 tokens.
"""

from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.factconsolidation.loader import FactConsolidationDataset, chunked
from longmemeval.core.files import sha256_text
from longmemeval.llm.protocol import ChatMessage
from longmemeval.reading.prompts import Compose
from longmemeval.records import Question, Recall

LONG_CONTEXT, RAG = "long-context", "rag"
CHUNK_TOKENS = 4096

_COMMON = ("a failed call counts as a wrong answer, where theirs leaves the question out",)
DEVIATIONS = {
    LONG_CONTEXT: (
        "chunks are cut between facts, where theirs often part a fact from its serial number",
        "chunks carry the stand-in date of the data, where theirs carry the time of the machine's clock",
        "what exceeds the model's window is handled by --on-overflow, where theirs drops the oldest facts",
        *_COMMON,
    ),
    RAG: (
        "the memory is asked the question alone, where theirs gets the sentence around it",
        "the memory finds what is shown, within its own budget and units, where theirs takes the 10 best chunks of "
        "512 or 4,096 tokens",
        *_COMMON,
    ),
}
"""Deviations from the authors' code, by form."""


class _File(Struct, frozen=True):
    texts: dict[str, str]


@cache
def _texts() -> dict[str, str]:
    return msgspec.json.decode(Path(__file__).with_name("official_texts.json").read_bytes(), type=_File).texts


def protocol_record(seed: int, texts: object, whole_history: bool) -> dict[str, Any]:
    """Return the record of the protocol for a manifest's `settings.protocol`; nothing is random, so it has no seed."""
    form = LONG_CONTEXT if whole_history else RAG
    return {
        "name": "official",
        "form": form,
        "texts_sha256": {name: sha256_text(text) for name, text in _texts().items()},
        "deviations": list(DEVIATIONS[form]),
    }


def protocol_note(record: Mapping[str, Any], official_metric: bool) -> str:
    """Return the note for tables with runs under the protocol."""
    form, differs = record.get("form"), "; ".join(record.get("deviations", ()))
    return f"MemoryAgentBench's answering protocol, {form}, in the authors' words. Unlike their code: {differs}."


def compose(dataset: FactConsolidationDataset, data_dir: Path, record: Mapping[str, Any]) -> Compose:
    """Return the composer of the messages of a call.

    Args:
        dataset: the data set of the questions.
        data_dir: not used: the texts are shipped.
        record: a manifest's `settings.protocol`.
    """
    return partial({LONG_CONTEXT: _long_context, RAG: _rag}[record["form"]], _texts())


def _long_context(texts: Mapping[str, str], question: Question, recall: Recall) -> tuple[ChatMessage, ...]:
    return _messages(texts, "\n".join(_wrapped(texts["memorize"], recall)), question)


def _rag(texts: Mapping[str, str], question: Question, recall: Recall) -> tuple[ChatMessage, ...]:
    # Items are in order of time, or in the memory's own order; theirs are in order of rank.
    ranked = sorted(recall.items, key=lambda item: (item.rank is None, item.rank or 0))
    lines = (f"Memory {place}:\n{item.text}\n" for place, item in enumerate(ranked, start=1))
    return _messages(texts, "\n".join(lines), question)


def _messages(texts: Mapping[str, str], context: str, question: Question) -> tuple[ChatMessage, ...]:
    # The recalled text may contain a placeholder, and the question is not a format string.
    query = texts["query_long_context_agent"].replace("{question}", question.text)
    return ChatMessage("system", texts["system"]), ChatMessage("user", f"{context}\n{query}")


def _wrapped(memorize: str, recall: Recall) -> Iterator[str]:
    dates = {item.text: item.date for item in recall.items}
    for facts in chunked([item.text for item in recall.items], CHUNK_TOKENS):
        date = dates[facts[0]]
        before, _, after = memorize.partition("{context}")
        yield before.replace("{time_stamp}", f"{date:%Y-%m-%d %H:%M:%S}" if date else "") + "\n".join(facts) + after
