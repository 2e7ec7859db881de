"""Literal text, whatever its case, in the answers of runs and in the messages that they recalled."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock

from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.results.run_questions import RunQuestions
from longmemeval.storage.messages import haystack_messages

Stopped = Callable[[], bool]
"""Whether nobody waits for the result any more."""
_KEPT = 100_000_000
"""Characters of recalled messages that are kept for the next search; what is beyond is read again."""


def in_answers(comparison: Comparison, text: str) -> set[str]:
    """Return the ids of the questions in whose answers the text is."""
    wanted = text.casefold()
    return {
        question_id
        for run in comparison.evaluations
        for question_id, answer in run.answers.items()
        if wanted in answer.hypothesis.casefold()
    }


class RecalledTexts:
    """The recalled messages of histories, kept from one search to the next; used by several requests at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._texts: OrderedDict[tuple[str, str], dict[str, str]] = OrderedDict()
        self._size = 0

    def found(self, comparison: Comparison, text: str, stopped: Stopped) -> set[str]:
        """Return the ids of the questions for which a run recalled a message with the text.

        Args:
            comparison: of the runs.
            text: what is looked for, whatever its case.
            stopped: asked before each history; once it is true, what was found until then is returned.
        """
        wanted, asked, hits = text.casefold(), comparison.evaluations[0].asked, set[str]()
        for haystack_id, recalled in _by_haystack(comparison).items():
            if stopped():
                break
            texts = self._of(asked, haystack_id, set().union(*recalled.values()))
            there = {message_id for message_id, said in texts.items() if wanted in said}
            hits.update(question_id for question_id, ids in recalled.items() if not there.isdisjoint(ids))
        return hits

    def _of(self, asked: RunQuestions, haystack_id: str, ids: Iterable[str]) -> dict[str, str]:
        """Return the texts of a history's messages by their ids, these among them."""
        key = (asked.dataset.sha256, haystack_id)
        with self._lock:
            kept = self._texts.get(key)
            if kept is None or not kept.keys() >= set(ids):
                messages = haystack_messages(asked.dataset.haystack(haystack_id))
                wanted = {*ids, *(kept or ())}
                made = {one.message_id: one.content.casefold() for one in messages if one.message_id in wanted}
                # Ids that are no messages of the history are not looked for again.
                self._keep(key, dict.fromkeys(wanted, "") | made)
                return made
            self._texts.move_to_end(key)
            return kept

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
    found: dict[str, dict[str, set[str]]] = {}
    for question_id, question in questions.items():
        ids = set[str]()
        for run in comparison.evaluations:
            if (answer := run.answers.get(question_id)) is not None:
                ids.update(answer.recall_ids)
        if ids:
            found.setdefault(question.haystack_id, {})[question_id] = ids
    return found
