"""LongMemEval's own judge: the prompts and the rule of `src/evaluation/evaluate_qa.py` in the official repository."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes
from longmemeval.errors import HarnessError, IntegrityError, nearest
from longmemeval.judges.asking import ask, readable
from longmemeval.judges.definition import JudgeDefinition, Prompts
from longmemeval.judges.protocol import JudgeIdentity, judge_id
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.protocol import ChatModel
from longmemeval.records import Gold, Judgement, Question, RightAnswer

OFFICIAL_MODEL = "gpt-4o-2024-08-06"
DEFAULT_JUDGE = f"openai/{OFFICIAL_MODEL}"
MAX_TOKENS = 10
TEMPERATURE = 0.0
PARAMETERS = {"max_tokens": MAX_TOKENS, "n": 1, "temperature": TEMPERATURE}
"""Parameters of each call. `n` is not sent, since every chat endpoint gives one reply by default."""

TEMPLATES_FILE = Path(__file__).with_name("judge_templates.json")
TEMPLATES_SHA256 = "650f730c92a519e92e7165f769a02bc2c9684c50857a8a11e84e71b96e44a3b0"
"""Hash of the canonical JSON of {template name: sha256 of its text}."""

_ABSTENTION = "abstention"


class _Template(Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str
    utf8_bytes: int
    text: str


class _TemplateFile(Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    licence: str
    use: str
    model: str
    selection: str
    templates: dict[str, _Template]


@cache
def load_templates(path: Path = TEMPLATES_FILE) -> Mapping[str, str]:
    """Return the official templates by question type, and `abstention`; each with three `{}`.

    Raises:
        IntegrityError: the file is not the official set, byte for byte.
    """
    try:
        templates = msgspec.json.decode(path.read_bytes(), type=_TemplateFile).templates
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _damaged(f"The judge's templates cannot be read: {error}", path) from error
    for name, template in templates.items():
        data = template.text.encode()
        if sha256_bytes(data) != template.sha256 or len(data) != template.utf8_bytes:
            raise _damaged(f"The judge template '{name}' is not the official text", path)
    hashes = {name: template.sha256 for name, template in templates.items()}
    if sha256_bytes(msgspec.json.encode(hashes, order="sorted")) != TEMPLATES_SHA256:
        raise _damaged("The judge's templates are not the official set", path)
    return {kind: template.text for name, template in templates.items() for kind in name.split("|")}


def _damaged(what: str, path: Path) -> IntegrityError:
    return IntegrityError(what, where=str(path), fix="Install the package again")


def official_prompt(
    question_type: str, question_id: str, question_text: str, answer: RightAnswer, hypothesis: str
) -> str:
    """Return the prompt that the official script builds.

    An id that contains `_abs` selects the abstention template, whatever the type. The values are inserted with one
    `str.format`, so braces in them stay as they are.

    Raises:
        HarnessError: the benchmark has no question type of this name.
    """
    templates = load_templates()
    types = templates.keys() - {_ABSTENTION}
    if "_abs" in question_id:
        template = templates[_ABSTENTION]
    elif question_type in types:
        template = templates[question_type]
    else:
        raise HarnessError(
            f"The LongMemEval judge has no template for the question type '{question_type}'",
            where=f"question {question_id}",
            fix=nearest(question_type, types),
        )
    return template.format(question_text, answer, hypothesis)


def official_label(reply: str) -> bool:
    """Return the official reading of a reply: True if "yes" is anywhere in it, in any case ("yesterday" counts)."""
    return "yes" in reply.strip().lower()


class LongMemEvalJudge:
    """The judge with the official prompts on any chat model; official only on OpenAI's official model and address.

    Args:
        model: the model that grades.
        endpoint: address at which it is served (`served_at`); None if unknown.
    """

    def __init__(self, model: ChatModel, endpoint: str | None = None) -> None:
        load_templates()
        self._model = model
        self.identity = _identity(model.spec, endpoint)
        """Identity of the judge; `official` only for `gpt-4o-2024-08-06` as OpenAI serves it."""

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis` with one call.

        A failed call and an empty reply give no label. The official script counts an empty reply as "no"; accuracy is
        the same, but here it is visible that a reasoning model used up the ten tokens before its first word.

        Raises:
            HarnessError: the benchmark has no such question type.
            FatalModelError: no call can succeed.
        """
        prompt = official_prompt(gold.question_type, question.question_id, question.text, gold.answer, hypothesis)
        return await ask(
            self._model,
            prompt,
            question,
            hypothesis,
            official_label,
            judge_id=self.identity.id,
            max_tokens=MAX_TOKENS,
            temperature=TEMPERATURE,
        )


def _identity(spec: str, endpoint: str | None) -> JudgeIdentity:
    model = DEFAULT_JUDGE if spec == OFFICIAL_MODEL else spec
    return JudgeIdentity(
        id=judge_id(f"longmemeval-{readable(model, endpoint)}", TEMPLATES_SHA256, model, PARAMETERS, endpoint),
        model=model,
        templates="LongMemEval",
        templates_sha256=TEMPLATES_SHA256,
        parameters=dict(PARAMETERS),
        official=model == DEFAULT_JUDGE and endpoint == OWN_ENDPOINT,
        endpoint=endpoint,
    )


OFFICIAL_PROMPTS = JudgeDefinition(
    prompts=Prompts(
        TEMPLATES_SHA256,
        PARAMETERS,
        lambda model, endpoint, data_dir: LongMemEvalJudge(model, endpoint),
        official_label,
        DEFAULT_JUDGE,
    )
)
