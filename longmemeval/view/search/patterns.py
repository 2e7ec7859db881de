"""Search by regular expressions of a visitor, in a separate process that is killed if a pattern takes too long."""

import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Lock

import msgspec

from longmemeval.errors import HarnessError
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.results.run_questions import RunQuestions
from longmemeval.storage.messages import haystack_messages

# Search for literal text, ignoring case, in the answers of runs and in the messages that they recalled.

Stopped = Callable[[], bool]
"""A function that returns True once nobody waits for the result any more."""
_KEPT = 100_000_000
"""The number of characters of recalled messages that are cached for the next search; others are read again."""


def in_answers(comparison: Comparison, text: str) -> set[str]:
    """Return the ids of the questions with an answer that contains the text."""
    folded = text.casefold()
    return {
        question_id
        for run in comparison.evaluations
        for question_id, answer in run.answers.items()
        if folded in answer.hypothesis.casefold()
    }


class RecalledTexts:
    """A cache of the recalled messages of histories for later searches; safe for several requests at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._texts: OrderedDict[tuple[str, str], dict[str, str]] = OrderedDict()
        self._size = 0

    def found(self, comparison: Comparison, text: str, stopped: Stopped) -> set[str]:
        """Return the ids of the questions for which a run recalled a message with the text.

        Args:
            comparison: the comparison of the runs.
            text: the text to search for, ignoring case.
            stopped: called before each history; once it returns True, the search ends with what it has found.
        """
        folded, asked, hits = text.casefold(), comparison.evaluations[0].asked, set[str]()
        for haystack_id, recalled in _by_haystack(comparison).items():
            if stopped():
                break
            texts = self._of(asked, haystack_id, set().union(*recalled.values()))
            matches = {message_id for message_id, recalled_text in texts.items() if folded in recalled_text}
            hits.update(question_id for question_id, ids in recalled.items() if not matches.isdisjoint(ids))
        return hits

    def _of(self, asked: RunQuestions, haystack_id: str, ids: Iterable[str]) -> dict[str, str]:
        """Return texts of a history's messages by their ids, including at least these ids."""
        key = (asked.dataset.sha256, haystack_id)
        with self._lock:
            cached = self._texts.get(key)
            if cached is None or not cached.keys() >= set(ids):
                messages = haystack_messages(asked.dataset.haystack(haystack_id))
                wanted = {*ids, *(cached or ())}
                texts = {turn.message_id: turn.content.casefold() for turn in messages if turn.message_id in wanted}
                # Ids that are not messages of the history get empty texts, so they are not looked up again.
                self._keep(key, dict.fromkeys(wanted, "") | texts)
                return texts
            self._texts.move_to_end(key)
            return cached

    def _keep(self, key: tuple[str, str], texts: dict[str, str]) -> None:
        self._size -= sum(map(len, self._texts.pop(key, {}).values()))
        self._texts[key] = texts
        self._size += sum(map(len, texts.values()))
        while self._size > _KEPT:
            _, gone = self._texts.popitem(last=False)
            self._size -= sum(map(len, gone.values()))


def _by_haystack(comparison: Comparison) -> dict[str, dict[str, set[str]]]:
    """Return haystack -> question -> the ids of the messages that any run recalled for it."""
    questions = comparison.evaluations[0].asked.questions
    by_haystack: dict[str, dict[str, set[str]]] = {}
    for question_id, question in questions.items():
        ids = set[str]()
        for run in comparison.evaluations:
            if (answer := run.answers.get(question_id)) is not None:
                ids.update(answer.recall_ids)
        if ids:
            by_haystack.setdefault(question.haystack_id, {})[question_id] = ids
    return by_haystack


LIMIT_S = 2
"""The processor time in seconds that a pattern may take for all texts."""
_WAITING = 5
"""The factor from processor time to wall-clock time: the processor may be busy, or the system may not limit it."""
_LOOK_S = 0.05
_WORKER = Path(__file__).with_name("try_pattern.py")


def matching(pattern: str, texts: Sequence[str], stopped: Stopped, *, limit_s: int = LIMIT_S) -> list[int]:
    """Return the indexes of the texts in which a pattern is found, ignoring case.

    Args:
        pattern: a regular expression in the syntax of Python's `re`.
        texts: the texts to search.
        stopped: called during the search; once it returns True, the search ends and nothing is found.
        limit_s: processor time in seconds after which the search is ended.

    Raises:
        HarnessError: the pattern is invalid, or takes too much time or memory.
    """
    command = [sys.executable, "-I", "-S", str(_WORKER)]
    arguments = msgspec.json.encode([pattern, list(texts), limit_s])
    too_long = HarnessError(
        f"The pattern took longer than {limit_s} s and was ended",
        fix="Search for plain text, or leave out repetitions inside of repetitions",
    )
    with tempfile.TemporaryFile() as sent:  # A file, as `communicate` does not resume sending after a timeout.
        sent.write(arguments)
        sent.seek(0)
        with subprocess.Popen(command, stdin=sent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
            ends = time.monotonic() + limit_s * _WAITING
            while (reply := _reply(worker)) is None:
                if stopped() or time.monotonic() > ends:
                    worker.kill()
                    if stopped():
                        return []
                    raise too_long
    if worker.returncode < 0:  # Ended by the system, which limits processor time.
        raise too_long
    if worker.returncode > 0:
        raise HarnessError("The pattern takes more memory than it may", fix="Search for plain text")
    result = msgspec.json.decode(reply, type=list[int] | str)
    if isinstance(result, str):
        raise HarnessError(f"This is no regular expression: {result}", fix="Search for plain text, or mend it")
    return result


def _reply(worker: subprocess.Popen[bytes]) -> bytes | None:
    """Return the output of the process once it has ended; None while it runs."""
    try:
        return worker.communicate(timeout=_LOOK_S)[0]
    except subprocess.TimeoutExpired:
        return None
