"""The way LoCoMo-Plus's authors show a model a trigger: `data/unified_input.py` and `task_eval/utils.py` at 059f4e3.

One message: their opening line, their instruction to show that the memory is there, and the conversation as lines
`Name said, "text"` without dates, captions or borders of sessions, the trigger as the last of them. The words are read
from the user's copy of their code.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longmemeval.benchmarks.locomo_plus.official_texts import COGNITIVE_TASK, OPENING, SHA256, TASK_FILE, official_texts
from longmemeval.errors import HarnessError
from longmemeval.llm.protocol import ChatMessage
from longmemeval.records import Question, Recall

if TYPE_CHECKING:
    from longmemeval.benchmarks.locomo_plus.loader import LocomoPlusDataset
    from longmemeval.reading.prompts import Compose

FAILED = "a failed call is no answer, where theirs grades its error message"
CHOSEN = "the memory chooses what is shown of the conversation, where theirs shows all of it"


def protocol_record(seed: int, texts: object, whole_history: bool) -> dict[str, Any]:
    """Return the record of the protocol for a manifest's `settings.protocol`; nothing is random, so it has no seed."""
    return {
        "name": "official",
        "texts_sha256": {name: SHA256[name] for name in (OPENING, COGNITIVE_TASK)},
        "deviations": [FAILED] if whole_history else [CHOSEN, FAILED],
    }


def compose(dataset: "LocomoPlusDataset", data_dir: Path, record: Mapping[str, Any]) -> "Compose":
    """Return the composer of the message of a call.

    Args:
        dataset: the data set of the questions.
        data_dir: folder with the authors' file.
        record: a manifest's `settings.protocol`.

    Raises:
        HarnessError: the authors' prompts are missing.
    """
    file = data_dir / TASK_FILE
    if not file.exists():
        raise HarnessError(
            "The authors' prompt for triggers is not in the data folder",
            where=str(file),
            fix="Run `longmemeval datasets download locomo-plus`, or leave out --protocol official",
        )
    texts = official_texts(file, OPENING, COGNITIVE_TASK)
    return partial(_prompt, texts[OPENING].format("A", "B") + texts[COGNITIVE_TASK], dataset)


def protocol_note(record: Mapping[str, Any], official_metric: bool) -> str:
    """Return the note for tables with runs under the protocol."""
    differs = "; ".join(record.get("deviations", ()))
    return (
        "LoCoMo-Plus's answering protocol, in the authors' words, which tell the model to show its memory. "
        f"Unlike their code: {differs}."
    )


def _prompt(opening: str, dataset: "LocomoPlusDataset", question: Question, recall: Recall) -> tuple[ChatMessage, ...]:
    lines = [*_lines(dataset, question, recall), _line(dataset.asked_by[question.question_id], question.text)]
    return (ChatMessage("user", opening + "\n".join(lines).strip()),)


def _lines(dataset: "LocomoPlusDataset", question: Question, recall: Recall) -> Iterator[str]:
    """Yield the recalled items as lines, messages as in the data and without captions."""
    sessions = {session.session_id: session.turns for session in dataset.haystack(question.haystack_id).sessions}
    for item in recall.items:
        places = [name.rpartition(":") for name in item.message_ids] if item.kind == "message" else []
        turns = [sessions[session_id][int(index)] for session_id, _, index in places]
        yield from [_line(turn.speaker, turn.content) for turn in turns] or [item.text]


def _line(speaker: str, text: str) -> str:
    return f'{speaker} said, "{text.strip()}"'
