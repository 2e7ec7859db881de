"""A judge made of a template set and a chat model."""

from longmemeval.judges.asking import ask, readable
from longmemeval.judges.protocol import JudgeIdentity, judge_id
from longmemeval.judges.template_set import TemplateSet, read_reply
from longmemeval.llm.protocol import ChatModel
from longmemeval.records import Gold, Judgement, Question


class TemplateJudge:
    """A judge that grades with the prompts of a template set; never official.

    Args:
        templates: the prompts, and the way replies are read.
        model: the model that grades.
        endpoint: address at which it is served (`served_at`); None if unknown.
    """

    def __init__(self, templates: TemplateSet, model: ChatModel, endpoint: str | None = None) -> None:
        self._templates = templates
        self._model = model
        self.identity = _identity(templates, model.spec, endpoint)
        """Identity of the judge."""

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis` with one call; a failed call and an unreadable reply give no label.

        Raises:
            HarnessError: the template needs what the data does not have.
            FatalModelError: no call can succeed.
        """
        prompt = self._templates.prompt(question, gold, hypothesis)
        return await ask(
            self._model,
            prompt,
            question,
            hypothesis,
            lambda reply: read_reply(self._templates.reply, reply),
            judge_id=self.identity.id,
            max_tokens=self._templates.max_tokens,
            temperature=self._templates.temperature,
        )


def _identity(templates: TemplateSet, model: str, endpoint: str | None) -> JudgeIdentity:
    # `reply` is in the hash of the templates too; here it helps readers who have only the judgements.
    parameters = {
        "max_tokens": templates.max_tokens,
        "reply": templates.reply,
        "temperature": templates.temperature,
    }
    return JudgeIdentity(
        id=judge_id(f"{templates.name}-{readable(model, endpoint)}", templates.sha256, model, parameters, endpoint),
        model=model,
        templates=templates.name,
        templates_sha256=templates.sha256,
        parameters=parameters,
        official=False,
        endpoint=endpoint,
    )
