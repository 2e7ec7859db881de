"""The protocol of judges, and their identities."""

from typing import Any, Protocol

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes
from longmemeval.records import Gold, Judgement, Question


class JudgeIdentity(Struct, frozen=True):
    """Everything that decides which label a judge gives. Two judges that may differ never share an `id`."""

    id: str
    """A readable name and a hash of the fields below; safe as a file name."""
    model: str
    """The model's spec, `offline/lexical` for the rules that need no model."""
    templates: str
    """Name of the set of prompts or rules."""
    templates_sha256: str
    parameters: dict[str, Any]
    official: bool
    """True for the benchmark's own judge: its prompts and parameters, its model as its provider serves it."""
    metric: str = "accuracy"
    """Name of the mean over the questions: `accuracy` for labels, `F1` or similar for scores."""
    endpoint: str | None = None
    """Address at which the model is served (`llm/http/endpoints.py`), or `provider's own`; None for rules and imported
    labels."""


class Judge(Protocol):
    """A judge of single answers; many may be in progress at once."""

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the judge."""
        ...

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis`; a call that failed gives a judgement without a label.

        Raises:
            HarnessError: this judge cannot grade questions of this type.
            FatalModelError: no call can succeed.
        """
        ...


def judge_id(
    readable: str, templates_sha256: str, model: str, parameters: dict[str, Any], endpoint: str | None = None
) -> str:
    """Return `readable` and the first 8 digits of a hash of everything that decides a label."""
    decisive = [templates_sha256, model, parameters, *([] if endpoint is None else [endpoint])]
    return f"{readable}-{sha256_bytes(msgspec.json.encode(decisive, order='sorted'))[:8]}"


def extended(identity: JudgeIdentity, more: dict[str, Any]) -> JudgeIdentity:
    """Return the judge with `more` among its parameters, under the resulting id."""
    parameters = identity.parameters | more
    readable, _, _ = identity.id.rpartition("-")
    return msgspec.structs.replace(
        identity,
        id=judge_id(readable, identity.templates_sha256, identity.model, parameters, identity.endpoint),
        parameters=parameters,
    )
