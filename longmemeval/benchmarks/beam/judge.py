"""BEAM's judges: one call per nugget; for event ordering, further calls that align the answer with the nuggets.

| judge | prompts | 0.5 counts |
|---|---|---|
| `beam` | the authors', from the user's copy of their code; ours where there is none | 0, as in their code |
| `beam-paper` | the same | a half |
| `beam-own`, `beam-own-paper` | ours, which show the question | 0; a half |

Judges with the same prompts send the same requests: the second reuses the replies that the first got. Deviations from
the official code: an unreadable reply leaves the question not evaluated, whereas there it ends the evaluation; facts of
an answer about order, which a model extracts there but which are never used, are not extracted; replies have at most
2,048 tokens.

Scores from replies, as in the official `src/evaluation/compute_metrics.py` at b2a3ee8. Nine abilities: the mean of the
nuggets' scores. The code converts each to an integer first, so that partial compliance, 0.5, counts 0
(`official-code`); the prompt and the paper mean it to count (`paper`). Event ordering: the lines of the answer,
including blank ones and headings, are aligned with the nuggets, and Kendall's tau-b of the two orders, scaled to 0 … 1,
is the score. So an empty answer does not get 0 (.146 with three nuggets, .233 with six), and the first of three items
alone gets .908 (the first of six .789).
"""

import ast
import json
import math
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.beam.loader import BeamGold
from longmemeval.benchmarks.beam.protocol import (
    CLONE,
    OFFICIAL_SHA256,
    OWN_SHA256,
    Wording,
    official_wording,
    own_wording,
)
from longmemeval.core.files import sha256_bytes, sha256_text
from longmemeval.errors import HarnessError, ModelError
from longmemeval.judges.asking import lacks_verdict, readable
from longmemeval.judges.definition import JudgeDefinition, Prompts
from longmemeval.judges.offline.rules import Verdict
from longmemeval.judges.protocol import JudgeIdentity, judge_id
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatReply, ChatRequest
from longmemeval.llm.thoughts import reasoning_in
from longmemeval.records import Gold, Judgement, Question, asked_of, sum_latencies, usage_of

Credit = Literal["official-code", "paper"]

_FENCE = re.compile(r"^```(?:json)?\s*|\s*```$")
_NUMBER = r"\s*:\s*([\"']?)(-?\d+(?:\.\d+)?)"
_SCORES = (re.compile(rf"[{{,]\s*[\"'“]?score[\"'”]?{_NUMBER}"), re.compile(rf'"score"{_NUMBER}'))
"""Pattern for a key of an object, in any quotes or none; then for the word in double quotes anywhere."""


def nugget_score(reply: str, credit: Credit) -> float | None:
    """Return the score in a judge's reply, 0 to 1; None without one, where the official code ends in an error.

    The reply is a JSON object, alone, fenced or among other text. A Python literal is read as such, and a broken object
    counts by the number after its first key `score`: the official code repairs both with a library, json_repair, to the
    same effect.
    """
    value = _score_in(_FENCE.sub("", reply.strip()))
    if not isinstance(value, int | float | str):
        return None
    try:
        score = float(int(value) if credit == "official-code" else float(value))
    except (ValueError, OverflowError):
        return None
    return score if 0 <= score <= 1 else None


def _score_in(text: str) -> object:
    """Return the value of `score`; None if there is none."""
    try:
        document = json.loads(text)
    except ValueError:
        start = text.find("{")
        if start < 0:
            return None
        try:
            document, _ = json.JSONDecoder().raw_decode(text, start)
        except ValueError:
            document = _in_python(text[start : text.rfind("}") + 1])
            if document is None and (
                number := next(filter(None, (pattern.search(text, start) for pattern in _SCORES)), None)
            ):
                return number[2] if number[1] else float(number[2])
    return document.get("score") if isinstance(document, dict) else None


def _in_python(text: str) -> object:
    """Return the object if `text` is a Python literal; otherwise None."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def question_score(scores: Sequence[float]) -> float:
    """Return the mean over the nuggets."""
    return sum(scores) / len(scores)


def same_event(reply: str) -> bool:
    """Return the official reading of a reply on whether two texts describe one event: "yes" anywhere, in any case."""
    return "yes" in reply.lower()


class Ordering(Struct, frozen=True):
    """The order of events in an answer, compared with the right one."""

    precision: float
    recall: float
    f1: float
    tau_norm: float
    """(tau-b + 1) / 2; NaN if there is only a single item."""
    final_score: float
    """`tau_norm` times `f1`."""


class Alignment:
    """The alignment of an answer's lines with the nuggets, one comparison at a time.

    Each line is compared with each unused nugget, both in order; the first match is used.
    """

    def __init__(self, rubric: Sequence[str], hypothesis: str) -> None:
        self._rubric = rubric
        self._lines = hypothesis.split("\n")
        self._used: set[int] = set()
        self._aligned: list[str] = []
        self._nugget = 0

    def pair(self) -> tuple[str, str] | None:
        """Return the nugget and the line to compare next; None when all lines are aligned."""
        while len(self._aligned) < len(self._lines):
            line = self._lines[len(self._aligned)]
            while self._nugget < len(self._rubric):
                if self._nugget not in self._used:
                    return self._rubric[self._nugget], line
                self._nugget += 1
            self._aligned.append(line)
            self._nugget = 0
        return None

    def record(self, same: bool) -> None:
        """Record whether the last pair describes the same event."""
        if not same:
            self._nugget += 1
            return
        self._used.add(self._nugget)
        self._aligned.append(self._rubric[self._nugget])
        self._nugget = 0

    def ordering(self) -> Ordering:
        """Return the figures; all lines must be aligned."""
        return event_ordering(self._rubric, self._aligned)


def event_ordering(reference: Sequence[str], system: Sequence[str]) -> Ordering:
    """Return the official figures of two lists; where both mean the same, the second has the words of the first."""
    # Imported here because scipy takes most of a second to load.
    from scipy.stats import kendalltau

    matched = len(set(reference) & set(system))
    wrong = sum(item not in reference for item in system)
    missed = sum(item not in system for item in reference)
    precision = matched / (matched + wrong) if matched + wrong else 0.0
    recall = matched / (matched + missed) if matched + missed else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    union = list(dict.fromkeys([*reference, *system]))
    ranks = _ranks(reference, union), _ranks(system, union)
    tau = float(kendalltau(*ranks).statistic) if len(union) > 1 else math.nan
    tau_norm = (tau + 1) / 2
    return Ordering(precision, recall, f1, tau_norm, tau_norm * f1)


def _ranks(items: Sequence[str], union: Sequence[str]) -> list[int]:
    """Return the last position of each item, from 1; absent items get one more than the number of all items."""
    places = {item: place for place, item in enumerate(items, start=1)}
    return [places.get(item, len(union) + 1) for item in union]


DEFAULT_JUDGE = "openai/gpt-4.1-mini"
MAX_TOKENS = 2048
TEMPERATURE = 0.0
ORDERING = "event_ordering"


class Replies(Struct, frozen=True):
    """The content of `Judgement.raw`: all replies about one answer, and the result of the replies about its order."""

    nuggets: list[str]
    """Replies in the order of the rubric."""
    alignment: list[str] = []
    """Replies in the order of the comparisons."""
    ordering: Ordering | None = None


def verdict(credit: Credit, raw: str, gold: Gold, hypothesis: str) -> Verdict:
    """Return label and score, recomputed from stored replies."""
    try:
        replies = msgspec.json.decode(raw, type=Replies)
    except msgspec.MsgspecError:
        return Verdict(None, "The replies cannot be read")
    return _verdict(credit, replies, _beam(gold), _replayed(replies, _beam(gold), hypothesis))


def _verdict(credit: Credit, replies: Replies, gold: BeamGold, ordering: Ordering | None) -> Verdict:
    scores = [nugget_score(reply, credit) for reply in replies.nuggets]
    readable_scores = [score for score in scores if score is not None]
    if gold.question_type == ORDERING:
        if ordering is None or math.isnan(ordering.tau_norm):
            return Verdict(None, "The answer has no order to compare")
        return Verdict(ordering.tau_norm == 1, "", ordering.tau_norm)
    if len(readable_scores) < len(gold.rubric):
        missing = len(gold.rubric) - len(readable_scores)
        return Verdict(None, f"{missing} of {len(gold.rubric)} replies of the judge cannot be read")
    score = question_score(readable_scores)
    return Verdict(score == 1, "", score)


def _replayed(replies: Replies, gold: BeamGold, hypothesis: str) -> Ordering | None:
    if gold.question_type != ORDERING:
        return None
    alignment = Alignment(gold.rubric, hypothesis)
    for reply in replies.alignment:
        if alignment.pair() is None:
            return None
        alignment.record(same_event(reply))
    return alignment.ordering() if alignment.pair() is None else None


class BeamJudge:
    """A judge that grades by nuggets.

    Args:
        model: the model that grades.
        endpoint: address at which it is served (`served_at`); None if unknown.
        data_dir: the data folder.
        credit: credit of partial compliance.
        official: True to use the authors' prompts, if they are in the data folder.

    Raises:
        IntegrityError: the prompts in the data folder are not the authors'.
    """

    def __init__(
        self, model: ChatModel, endpoint: str | None, data_dir: Path, *, credit: Credit, official: bool
    ) -> None:
        authors_wording = official_wording(data_dir / CLONE) if official else None
        self._model, self._credit = model, credit
        self._wording: Wording = authors_wording or own_wording()
        self._shows_question = authors_wording is None
        self.identity = _identity(model.spec, endpoint, credit, official=authors_wording is not None)
        """Identity of the judge; `official` for `beam`, the authors' prompts, on `gpt-4.1-mini` as OpenAI serves it."""

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis`; a failed call and an unreadable reply give no label.

        Raises:
            HarnessError: the question is not from BEAM.
            FatalModelError: no call can succeed.
        """
        graded = _beam(gold)
        shown = question.text if self._shows_question else None
        prompts = [self._wording.about_nugget(nugget, hypothesis, shown) for nugget in graded.rubric]
        replies, comparisons, failure = list[ChatReply](), list[ChatReply](), ""
        ordering: Ordering | None = None
        try:
            for prompt in prompts:
                await self._ask(question, replies, ChatMessage("user", prompt))
            ordering = await self._ordered(question, graded, hypothesis, comparisons)
        except ModelError as error:
            failure = str(error)
        raw = Replies([reply.text for reply in replies], [reply.text for reply in comparisons], ordering)
        result = Verdict(None, failure) if failure else _verdict(self._credit, raw, graded, ordering)
        received = [*replies, *comparisons]
        return Judgement(
            question_id=question.question_id,
            label=result.label,
            score=result.score,
            raw="" if failure else msgspec.json.encode(raw).decode(),
            judge_id=self.identity.id,
            prompt_sha256=sha256_bytes(msgspec.json.encode(prompts)),
            answer_sha256=sha256_text(hypothesis),
            served_model=received[0].served_model if received else "",
            usage=usage_of(received),
            attempts=sum(reply.attempts for reply in received),
            latency_ms=sum_latencies(reply.latency_ms for reply in received),
            error=result.reason,
            shown_reasoning=reasoning_in(received),
            asked=asked_of(received),
        )

    async def _ordered(
        self, question: Question, gold: BeamGold, hypothesis: str, replies: list[ChatReply]
    ) -> Ordering | None:
        """Compare until the order is known; add every reply to `replies`, even if a later call fails."""
        if gold.question_type != ORDERING:
            return None
        alignment = Alignment(gold.rubric, hypothesis)
        while pair := alignment.pair():
            system = ChatMessage("system", self._wording.same_system)
            await self._ask(question, replies, system, ChatMessage("user", self._wording.about_pair(*pair)))
            alignment.record(same_event(replies[-1].text))
        return alignment.ordering()

    async def _ask(self, question: Question, replies: list[ChatReply], *messages: ChatMessage) -> None:
        """Add a reply to `replies`.

        Raises:
            ModelError: there is none, or it broke off before its verdict.
        """
        request = ChatRequest(
            messages=messages,
            max_tokens=MAX_TOKENS,
            temperature=TEMPERATURE,
            question_id=question.question_id,
            question=question.text,
        )
        replies.append(await self._model.complete(request))
        if replies[-1].text and lacks_verdict(replies[-1]):
            raise ModelError(f"The judge's reply broke off before a verdict ({replies[-1].ending})")


def _beam(gold: Gold) -> BeamGold:
    if isinstance(gold, BeamGold):
        return gold
    what = f"This judge grades BEAM; a question of type '{gold.question_type}' has no rubric"
    raise HarnessError(what, where=f"question {gold.question_id}", fix="Choose another --judge")


def _name(credit: Credit, *, official: bool) -> str:
    return "beam" + ("" if official else "-own") + ("-paper" if credit == "paper" else "")


def _parameters(credit: Credit) -> dict[str, object]:
    return {"credit": credit, "max_tokens": MAX_TOKENS, "temperature": TEMPERATURE}


def _identity(spec: str, endpoint: str | None, credit: Credit, *, official: bool) -> JudgeIdentity:
    model = DEFAULT_JUDGE if spec == DEFAULT_JUDGE.partition("/")[2] else spec
    name, sha256 = _name(credit, official=official), OFFICIAL_SHA256 if official else OWN_SHA256
    parameters = _parameters(credit)
    return JudgeIdentity(
        id=judge_id(f"{name}-{readable(model, endpoint)}", sha256, model, parameters, endpoint),
        model=model,
        templates=name,
        templates_sha256=sha256,
        parameters=parameters,
        official=name == "beam" and model == DEFAULT_JUDGE and endpoint == OWN_ENDPOINT,
        metric="BEAM score" + (", partial credit" if credit == "paper" else ""),
        endpoint=endpoint,
    )


def _definition(credit: Credit, *, official: bool) -> JudgeDefinition:
    name = _name(credit, official=official)
    return JudgeDefinition(
        prompts=Prompts(
            OFFICIAL_SHA256 if official else OWN_SHA256,
            _parameters(credit),
            partial(BeamJudge, credit=credit, official=official),
            _no_label,
            DEFAULT_JUDGE if name == "beam" else "",
            partial(verdict, credit),
            sends=OFFICIAL_SHA256 if official else OWN_SHA256,
        )
    )


def _no_label(reply: str) -> bool | None:
    """Return None: a label depends on all replies and the rubric, see `verdict`."""
    return None


BEAM_CODE = _definition("official-code", official=True)
BEAM_PAPER = _definition("paper", official=True)
OWN_CODE = _definition("official-code", official=False)
OWN_PAPER = _definition("paper", official=False)
