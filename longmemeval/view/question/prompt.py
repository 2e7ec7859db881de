"""Show the prompt that one run sent to its model: tokens of each part, recalled pieces by rank, and what was cut."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from longmemeval.core.text.figures import count
from longmemeval.core.text.paths import without_places
from longmemeval.errors import HarnessError
from longmemeval.llm.tokens import token_counter
from longmemeval.memory.configuration import MemoryConfiguration
from longmemeval.pipeline.inspect.recalling import Recaller, why_not_again
from longmemeval.reading.prompts import SentPrompt
from longmemeval.reading.reader import prompt_parts
from longmemeval.records import Answer, Message, Recall
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.settings import AnswerSettings
from longmemeval.storage.messages import haystack_messages
from longmemeval.view.question.evidence import Evidence, evidence_of
from longmemeval.view.question.gather import PromptLine, PromptView

_LISTED, _CUT_LISTED = 60, 15
"""The numbers of pieces listed from the prompt and from the cut; evidence is listed beyond them."""
_MAX_QUOTED = 400
"""The number of characters shown of a piece."""
_PAGE = 60_000
"""The longest prompt, in characters, in the page; longer ones load on request."""


def prompt_view(run: Evaluation, question_id: str, recaller: Recaller | None, *, whole: bool = False) -> PromptView:
    """Return the prompt that one run sent to its model.

    Args:
        run: the graded run.
        question_id: one of its questions.
        recaller: recalls again to find the ranks, which answers do not store; None: ranks stay unknown.
        whole: include the text of the prompt however long it is.
    """
    answer = run.answers.get(question_id)
    if answer is None or run.manifest.kind != "run":
        return PromptView("", (), (), 0, "No prompt is stored: the answer is missing or was imported", (), 0)
    question = run.asked.questions[question_id]
    evidence = evidence_of(run.asked, question_id)
    stored = haystack_messages(run.asked.dataset.haystack(question.haystack_id))
    history = {message.message_id: message for message in stored}
    recall, remark = _recall_again(run, question_id, answer, recaller)
    known = set(answer.recall_ids)
    if recall:
        lines = _recalled(recall, answer, evidence)
        known |= {message_id for item in recall.items for message_id in item.message_ids}
    else:
        lines = [_message_line(name, history, evidence) for name in dict.fromkeys(answer.recall_ids)]
    cut = (message_id for message_id in dict.fromkeys(answer.cut_ids) if message_id not in known)
    lines += [_message_line(message_id, history, evidence, cut=True) for message_id in cut]
    if answer.provenance != "none":
        recalled, sessions = known.union(answer.cut_ids), set(answer.recall_sessions)
        missed = (name for name in history if name not in recalled and evidence.session_of(name) not in sessions)
        lines[:0] = [_message_line(name, history, evidence, missed=True) for name in missed if evidence.holds(name)]
    shown, more = _fitting(lines)
    prompts = run.files.prompts_to(question_id)
    sent = next((prompt for prompt in prompts if prompt.sha256 == answer.prompt_sha256), None)
    texts = [(message.role, message.content) for message in sent.messages] if sent else []
    length = sum(len(text) for _, text in texts)
    return PromptView(
        total=count(answer.prompt_tokens),
        parts=tuple(_parts(run, question_id, answer, sent, len(prompts))),
        lines=tuple(shown),
        more=more,
        remark=remark,
        texts=tuple(texts) if whole or length <= _PAGE else (),
        length=length,
    )


def memory_of(run: Evaluation) -> MemoryConfiguration | None:
    """Return the memory of a run as its settings record it; None if unknown."""
    memory = run.manifest.settings.memory
    if memory is None:
        return None
    return MemoryConfiguration(
        name=memory.name, preset=memory.preset, parameters=memory.parameters, source=memory.source or None
    )


def _recall_again(
    run: Evaluation, question_id: str, answer: Answer, recaller: Recaller | None
) -> tuple[Recall | None, str]:
    """Recall again; return the result if it is the same as that of the run, and a remark."""
    if recaller is None:
        return None, ""
    try:
        configuration = memory_of(run)
        if configuration is None:
            return None, ""
        if why := why_not_again(configuration):
            return None, f"In the order of the prompt; ranks are not kept. {why}."
        recall = recaller.recall(run.asked.questions[question_id], configuration).recall
    except HarnessError as error:
        why = without_places(str(error))
        return None, f"In the order of the prompt; ranks are not kept, and recalling again fails: {why}"
    recalled = {message_id for item in recall.items for message_id in item.message_ids} | set(recall.left_out_ids)
    if recalled != {*answer.recall_ids, *answer.cut_ids}:
        return (
            None,
            "In the order of the prompt; recalled again, the memory finds other messages: fixtures have changed",
        )
    return recall, ""


def _recalled(recall: Recall, answer: Answer, evidence: Evidence) -> list[PromptLine]:
    """Return the ranked pieces, best first, then unranked ones in the order of the prompt; cut ones come last."""
    shown = set(answer.recall_ids)
    lines = []
    for item in recall.items:
        cut = bool(item.message_ids) and not shown.intersection(item.message_ids)
        held = any(map(evidence.holds, item.message_ids))
        ranked = (item.kind, item.rank, item.score)
        lines.append(_line(ranked, item.date, item.speaker, item.text, evidence=held, cut=cut))
    return sorted(lines, key=lambda line: (line.cut, line.rank is None, line.rank or 0))


def _message_line(
    message_id: str, history: Mapping[str, Message], evidence: Evidence, *, cut: bool = False, missed: bool = False
) -> PromptLine:
    unranked, held = ("message", None, None), evidence.holds(message_id)
    message = history.get(message_id)
    if message is None:
        return _line(unranked, None, message_id, "(not a message of the dataset)", evidence=held, cut=cut)
    speaker = message.speaker or message.role
    return _line(unranked, message.created_at, speaker, message.content, evidence=held, cut=cut, missed=missed)


def _line(
    ranked: tuple[str, int | None, float | None],
    when: datetime | None,
    speaker: str,
    text: str,
    *,
    evidence: bool,
    cut: bool,
    missed: bool = False,
) -> PromptLine:
    """Return one piece, of which the first characters are shown."""
    date, left_out = f"{when:%Y-%m-%d}" if when else "", max(0, len(text) - _MAX_QUOTED)
    return PromptLine(*ranked, date, speaker, text[:_MAX_QUOTED], left_out, evidence, cut, missed)


def _fitting(lines: Sequence[PromptLine]) -> tuple[list[PromptLine], int]:
    """Return the listed lines, and the number of the others."""
    left = {False: _LISTED, True: _CUT_LISTED}
    shown = []
    for line in lines:
        left[line.cut] -= 1
        if line.evidence or left[line.cut] >= 0:
            shown.append(line)
    return shown, len(lines) - len(shown)


def _parts(
    run: Evaluation, question_id: str, answer: Answer, sent: SentPrompt | None, prompts: int
) -> Iterable[tuple[str, str]]:
    settings = run.manifest.settings
    if sent is None or prompts > 1 or not isinstance(settings, AnswerSettings):
        return
    question = run.asked.questions[question_id]
    template = settings.reading.options_template if question.options else ""
    counter = token_counter(settings.model.spec)
    if counter.name != settings.token_counter:
        return
    tokens = prompt_parts(sent, question, template or settings.reading.template, answer.prompt_tokens, counter)
    if tokens:
        yield from (
            ("instruction", count(tokens.instruction)),
            ("memory", count(tokens.memory)),
            ("question", count(tokens.question)),
        )
