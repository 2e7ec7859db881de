"""LoCoMo-Plus: conversations of LoCoMo, each used many times, with an inserted exchange that a memory must notice."""

import hashlib
from datetime import timedelta
from functools import cached_property
from operator import attrgetter
from pathlib import Path

from longmemeval.benchmarks.in_memory import InMemoryDataset
from longmemeval.benchmarks.locomo.format import Conversation
from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.benchmarks.locomo_plus.benchmark import COGNITIVE
from longmemeval.benchmarks.locomo_plus.format import LOCOMO_FILE, CueRecord, date_text, read_cues
from longmemeval.core.files import sha256_file
from longmemeval.errors import DataError
from longmemeval.records import Gold, Haystack, Question, Session, Turn

CUE_SESSION = "session_cue"
ASKED_AFTER = timedelta(days=7)
"""Time from the last session of the conversation to the trigger."""


class LocomoPlusDataset(InMemoryDataset):
    """A `Dataset` over a file of cues and triggers, and LoCoMo's conversations in the same folder.

    Item i, counted from 0, belongs to conversation i modulo their number. Its haystack, `<sample_id>_plus_<i>`, is that
    conversation plus the session `session_cue`, dated by the item's gap before the trigger. The question is the
    trigger, which the first speaker says 7 days after the last session. A gap without a number is 0 days, as in the
    official code: the cue then comes after all sessions.

    Args:
        path: the file of items; LoCoMo's `locomo10.json` is in the same folder.
        name: the catalogue name; empty: the stem of the file.
        captions: False removes the captions of shared pictures. The name then ends in `-without-captions`.

    Raises:
        DataError: a file is missing or invalid.
    """

    def __init__(self, path: Path, name: str = "", captions: bool = True) -> None:
        self.items = read_cues(path)
        self._locomo_file = path.with_name(LOCOMO_FILE)
        if not self._locomo_file.is_file():
            raise DataError(
                "The conversations into which the cues are inserted are not in their folder",
                where=str(self._locomo_file),
                fix="Run `longmemeval datasets download locomo-plus`, or put LoCoMo's locomo10.json there",
            )
        locomo = LocomoDataset(self._locomo_file, captions=captions)
        conversations = [(c, locomo.haystack(c.sample_id)) for c in locomo.conversations()]
        spliced = [
            _spliced(number, item, *conversations[number % len(conversations)])
            for number, item in enumerate(self.items)
        ]
        super().__init__(
            "locomo-plus",
            path,
            (name or path.stem) + ("" if captions else "-without-captions"),
            [haystack for haystack, _, _ in spliced],
            [(question, gold) for _, question, gold in spliced],
        )
        speakers = [conversation.speaker_a for conversation, _ in conversations]
        self.asked_by = {
            question.question_id: speakers[number % len(speakers)] for number, (_, question, _) in enumerate(spliced)
        }
        """Speaker of the trigger by question id."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The items and the conversations."""
        return (self.path, self._locomo_file)

    @cached_property
    def sha256(self) -> str:
        """Hash of the hashes of both files."""
        return hashlib.sha256("".join(map(sha256_file, self.files)).encode()).hexdigest()


def _spliced(
    number: int, item: CueRecord, conversation: Conversation, haystack: Haystack
) -> tuple[Haystack, Question, Gold]:
    """Return the haystack of one item, its question and its gold."""
    haystack_id, trigger_date = f"{conversation.sample_id}_plus_{number}", haystack.sessions[-1].date + ASKED_AFTER
    cue_date = trigger_date - timedelta(days=item.gap_days or 0)
    names = {"A": conversation.speaker_a, "B": conversation.speaker_b}
    turns = tuple(Turn("user" if speaker == "A" else "assistant", words, names[speaker]) for speaker, words in item.cue)
    cue = Session(CUE_SESSION, cue_date, date_text(cue_date), turns)
    # Sorting is stable: a cue at the time of a session comes after it, as in the official code.
    sessions = tuple(sorted((*haystack.sessions, cue), key=attrgetter("date")))
    # The colon is that of the official code, U+FF1A, so that its judge reads the same bytes.
    texts = tuple(f"{turn.speaker}\N{FULLWIDTH COLON}{turn.content}" for turn in turns)
    question_id = f"{haystack_id}/q"
    return (
        Haystack(haystack_id, sessions),
        Question(question_id, item.trigger, trigger_date, date_text(trigger_date), haystack_id),
        Gold(
            question_id,
            COGNITIVE,
            "\n".join(texts),
            (CUE_SESSION,),
            tuple(f"{CUE_SESSION}:{index}" for index in range(len(turns))),
            abstention=False,
            evidence_raw=(item.cue_dialogue,),
            evidence_texts=texts,
            facets={"gap_days": item.gap_days or 0},
        ),
    )
