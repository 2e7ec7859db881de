"""The way BEAM's authors ask questions: two forms of `src/answer_probing_questions/` in their repository at b2a3ee8.

| form | messages sent |
|---|---|
| long-context | the chat as messages with their roles, then the question as one more message of the user |
| rag | one message with the recalled text and the question |

The first form is for a memory that recalls everything, the second for any other. Neither shows a date. The words are
read from the user's copy of the authors' code; the mistakes of that code are not repeated here.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longmemeval.benchmarks.beam.benchmark import MAX_TOKENS
from longmemeval.benchmarks.beam.wording import ANSWERING, CLONE, answering_text
from longmemeval.llm.protocol import ChatMessage
from longmemeval.records import Question, Recall, RecalledItem

if TYPE_CHECKING:
    from longmemeval.benchmarks.beam.loader import BeamDataset
    from longmemeval.reading.prompts import Compose

LONG_CONTEXT, RAG = "long-context", "rag"

_COMMON = (
    f"an answer has at most {MAX_TOKENS:,} tokens unless --max-tokens is given, where theirs has no fixed limit",
    "a failed call is no answer, where theirs grades its error message",
)
DEVIATIONS = {
    LONG_CONTEXT: (
        "each question is asked alone, where their list of messages grows and ends with all earlier questions",
        "what exceeds the model's window is handled by --on-overflow, where theirs keeps the newest messages and at "
        "some lengths none",
        "sessions are in order of their dates, which at 10M is not always that of the file",
        *_COMMON,
    ),
    RAG: (
        "the memory finds what is shown, within its own budget, where theirs takes the 5 best pairs of messages up to "
        "29,000 estimated tokens",
        "every message is shown once and in order of time, where theirs indexes a pair two to six times and shows "
        "the pairs in order of rank",
        "a message is laid out as in their turn chunks, alone, where their default chunks are pairs",
        *_COMMON,
    ),
}
"""Deviations from the authors' code, by form."""


def protocol_record(seed: int, texts: object, whole_history: bool) -> dict[str, Any]:
    """Return the record of the protocol for a manifest's `settings.protocol`; nothing is random, so it has no seed."""
    form = LONG_CONTEXT if whole_history else RAG
    return {
        "name": "official",
        "form": form,
        "text_sha256": ANSWERING[form],
        "deviations": list(DEVIATIONS[form]),
    }


def compose(dataset: "BeamDataset", data_dir: Path, record: Mapping[str, Any]) -> "Compose":
    """Return the composer of the messages of a call.

    Args:
        dataset: the data set of the questions.
        data_dir: folder with the clone of the authors' repository.
        record: a manifest's `settings.protocol`.

    Raises:
        IntegrityError: the authors' prompts are missing.
    """
    return partial(
        {LONG_CONTEXT: _long_context, RAG: _rag}[record["form"]], answering_text(record["form"], data_dir / CLONE)
    )


def protocol_note(record: Mapping[str, Any], official_metric: bool) -> str:
    """Return the note for tables with runs under the protocol."""
    differs = "; ".join(record.get("deviations", ()))
    return f"BEAM's answering protocol, {record.get('form')}, in the authors' words. Unlike their code: {differs}."


def _long_context(text: str, question: Question, recall: Recall) -> tuple[ChatMessage, ...]:
    messages = (ChatMessage("assistant" if item.speaker == "assistant" else "user", item.text) for item in recall.items)
    return (*messages, ChatMessage("user", text.replace("{query}", question.text)))


def _rag(text: str, question: Question, recall: Recall) -> tuple[ChatMessage, ...]:
    # Filled in one pass, since the recalled text may contain the second placeholder.
    before, _, rest = text.partition("<context>")
    between, _, after = rest.partition("<question>")
    context = "".join(map(_laid_out, recall.items))
    return (ChatMessage("user", f"{before}{context}{between}{question.text}{after}"),)


def _laid_out(item: RecalledItem) -> str:
    """Return an item in the form of the authors' chunks of whole turns; only messages have a role."""
    return f"{item.speaker.upper()}: {item.text} \n\n" if item.kind == "message" else f"{item.text} \n\n"
