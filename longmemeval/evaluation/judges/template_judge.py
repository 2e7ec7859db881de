"""A judge made of a template set and a chat model."""

import re

import msgspec

from longmemeval.errors import ModelError
from longmemeval.evaluation.judges.protocol import JudgeIdentity, judge_id
from longmemeval.evaluation.judges.template_set import TemplateSet, read_reply
from longmemeval.files import sha256_text
from longmemeval.llm.protocol import ChatMessage, ChatModel, ChatRequest
from longmemeval.records import Gold, Judgement, Question

_MAX_READABLE = 60


class TemplateJudge:
    """Grades with the prompts of a template set; never official.

    Args:
        templates: what is asked, and how the reply is read.
        model: the model that grades.
    """

    def __init__(self, templates: TemplateSet, model: ChatModel) -> None:
        self._templates = templates
        self._model = model
        self._identity = _identity(templates, model.spec)

    @property
    def identity(self) -> JudgeIdentity:
        """Who grades."""
        return self._identity

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis` with one call; a failed call and an unreadable reply give no label.

        Raises:
            HarnessError: the template asks for what the data does not have.
            FatalModelError: no call can succeed.
        """
        prompt = self._templates.prompt(question, gold, hypothesis)
        request = ChatRequest(
            messages=(ChatMessage("user", prompt),),
            max_tokens=self._templates.max_tokens,
            temperature=self._templates.temperature,
            question_id=question.question_id,
            question=question.text,
        )
        unlabelled = Judgement(
            question_id=question.question_id,
            label=None,
            raw="",
            judge_id=self._identity.id,
            prompt_sha256=sha256_text(prompt),
            answer_sha256=sha256_text(hypothesis),
        )
        try:
            reply = await self._model.complete(request)
        except ModelError as error:
            return msgspec.structs.replace(unlabelled, error=str(error))
        label = read_reply(self._templates.reply, reply.text)
        fault = f"not readable as {self._templates.reply}" if reply.text.strip() else "empty"
        return msgspec.structs.replace(
            unlabelled,
            label=label,
            raw=reply.text,
            served_model=reply.served_model,
            usage=reply.usage,
            attempts=reply.attempts,
            latency_ms=reply.latency_ms,
            error=f"The judge's reply is {fault} (finish reason: {reply.finish_reason})" if label is None else "",
        )


def _identity(templates: TemplateSet, model: str) -> JudgeIdentity:
    # `reply` is in the hash of the templates too; here it tells whoever has only the judgements how to read them.
    parameters = {
        "max_tokens": templates.max_tokens,
        "reply": templates.reply,
        "temperature": templates.temperature,
    }
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", model.removeprefix("openai/"))[:_MAX_READABLE].strip("-.")
    return JudgeIdentity(
        id=judge_id(f"{templates.name}-{readable}", templates.sha256, model, parameters),
        model=model,
        templates=templates.name,
        templates_sha256=templates.sha256,
        parameters=parameters,
        official=False,
    )
