"""LoCoMo-Plus's own judge: the prompt of `evaluation_framework/task_eval/` as sent, and two readings of its reply.

| set | prompt | a reply is read |
|---|---|---|
| `locomo-plus` | the official one | as JSON with the label "correct" or "wrong"; anything else is not evaluated |
| `locomo-plus-substring` | the official one | as the authors' code does: "incorrect" counts as correct |
| `locomo-plus-own` | our own wording, which also shows the trigger | as JSON |

If the authors' file is not in the data folder, `locomo-plus` is `locomo-plus-own`, and has that name.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from longmemeval.benchmarks.locomo_plus.protocol import (
    COGNITIVE_JUDGE,
    OPENING,
    PROMPT_FILE,
    SHA256,
    official_texts,
)
from longmemeval.core.files import sha256_bytes
from longmemeval.errors import HarnessError
from longmemeval.judges.asking import ask, readable
from longmemeval.judges.definition import JudgeDefinition, Prompts
from longmemeval.judges.protocol import Judge, JudgeIdentity, judge_id
from longmemeval.judges.template_set import TemplateJudge, load_template_set
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.protocol import ChatModel
from longmemeval.records import Gold, Judgement, Question

DEFAULT_JUDGE = "openai/gpt-4o-mini"
MAX_TOKENS = 512
TEMPERATURE = 0.0
STRICT_SET, SUBSTRING_SET, OWN_SET = "locomo-plus", "locomo-plus-substring", "locomo-plus-own"

_CREDIT = {"correct": 1.0, "partial": 0.5, "wrong": 0.0}
_LABEL_THEN_REASON = re.compile(
    r"""\{[^{}]*"label"\s*:\s*["']([^"']+)["'][^{}]*"reason"\s*:\s*["'][^"']*["']""",
)


def official_prompt(evidence: str, prediction: str, texts: dict[str, str]) -> str:
    """Return the prompt as the authors send it: with their opening line first, though no conversation follows."""
    filled = texts[COGNITIVE_JUDGE].format(gold="", pred=prediction, evidence=evidence)
    return texts[OPENING].format("A", "B") + filled.strip()


def strict_label(reply: str) -> bool | None:
    """Return the label in the JSON objects of a reply, whatever text surrounds them; None unless they give exactly one.

    The prompt offers only "correct" and "wrong".
    """
    labels, decoder, place = set[object](), json.JSONDecoder(object_pairs_hook=list), reply.find("{")
    while place >= 0:
        try:
            pairs, end = decoder.raw_decode(reply, place)
        except (ValueError, RecursionError):
            return None
        labels |= {value.strip().lower() if isinstance(value, str) else "" for name, value in pairs if name == "label"}
        place = reply.find("{", end)
    return {"correct": True, "wrong": False}.get(str(labels.pop())) if len(labels) == 1 else None


def official_credit(reply: str) -> float:
    """Return the credit by the authors' reading (`llm_as_judge.py:43-66`): a label in JSON, else a word in the text.

    "incorrect" contains "correct" and gets 1; a reply without any of the words gets 0.
    """
    text = reply.strip()
    if match := _LABEL_THEN_REASON.search(text):
        return _credit(match[1])
    try:
        document = json.loads(text)
        label, _ = [(document.get(name) or "").strip() for name in ("label", "reason")]
    except (ValueError, AttributeError, RecursionError):
        return next((_CREDIT[word] for word in ("correct", "wrong", "partial") if word in text.lower()), 0.0)
    return _credit(label)


def substring_label(reply: str) -> bool:
    """Return whether the authors' reading gives full credit; half credit, which the prompt does not offer, is none."""
    return official_credit(reply) == 1


def _credit(label: str) -> float:
    return _CREDIT.get(label.strip().lower(), 0.0)


class LocomoPlusJudge:
    """A judge with the official prompt on any chat model.

    Args:
        model: the model that grades.
        endpoint: address at which it is served (`served_at`); None if unknown.
        name: name of the set.
        prompts: the set, which defines how replies are read.
        texts: the official texts.
    """

    def __init__(
        self, model: ChatModel, endpoint: str | None, name: str, prompts: Prompts, texts: dict[str, str]
    ) -> None:
        self._model, self._prompts, self._texts = model, prompts, texts
        spec = DEFAULT_JUDGE if model.spec == "gpt-4o-mini" else model.spec
        official = spec == prompts.official_model and endpoint == OWN_ENDPOINT
        self.identity = JudgeIdentity(
            id=judge_id(f"{name}-{readable(spec, endpoint)}", prompts.sha256, spec, dict(prompts.parameters), endpoint),
            model=spec,
            templates=name,
            templates_sha256=prompts.sha256,
            parameters=dict(prompts.parameters),
            official=official,
            endpoint=endpoint,
        )
        """Identity of the judge; `official` for the strict reading of `gpt-4o-mini` as OpenAI serves it."""

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis` with one call; a failed call and an unreadable reply give no label.

        The authors' code reads the message of a failed call as a reply.

        Raises:
            HarnessError: the question belongs to another benchmark.
            FatalModelError: no call can succeed.
        """
        if not gold.evidence_texts:
            raise HarnessError(
                "The judge of LoCoMo-Plus shows the text of the evidence, but the data lacks it",
                where=f"question {question.question_id}",
                fix="Choose another --judge",
            )
        return await ask(
            self._model,
            official_prompt("\n".join(gold.evidence_texts), hypothesis, self._texts),
            question,
            hypothesis,
            self._prompts.read,
            judge_id=self.identity.id,
            max_tokens=MAX_TOKENS,
            temperature=TEMPERATURE,
        )


def _prompts(name: str, read: Callable[[str], bool | None], official_model: str = "") -> Prompts:
    used = {text: SHA256[text] for text in (OPENING, COGNITIVE_JUDGE)}
    parameters = {"max_tokens": MAX_TOKENS, "temperature": TEMPERATURE}

    def judge(model: ChatModel, endpoint: str | None, data_dir: Path) -> Judge:
        file = data_dir / PROMPT_FILE
        if not file.exists() and official_model:
            return TemplateJudge(load_template_set(OWN_SET), model, endpoint)
        return LocomoPlusJudge(model, endpoint, name, prompts, official_texts(file, *used))

    # The name, which implies the reading, is hashed, so that two judges that may differ never share an id.
    prompts = Prompts(
        sha256_bytes(msgspec.json.encode([name, used], order="sorted")),
        parameters,
        judge,
        read,
        official_model,
        sends=sha256_bytes(msgspec.json.encode(used, order="sorted")),
    )
    return prompts


STRICT = JudgeDefinition(prompts=_prompts(STRICT_SET, strict_label, DEFAULT_JUDGE))
SUBSTRING = JudgeDefinition(prompts=_prompts(SUBSTRING_SET, substring_label))
OWN = JudgeDefinition(prompt_set=Path(__file__).with_name("judge_prompts.json"))
