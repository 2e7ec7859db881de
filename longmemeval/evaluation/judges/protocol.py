"""What a judge must offer, and how a judge is named."""

from typing import Any, Protocol

import msgspec
from msgspec import Struct

from longmemeval.files import sha256_bytes
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
    """Whether this is the benchmark's own judge: its prompts, its model, its parameters."""
    metric: str = "accuracy"
    """What the mean over the questions is called: `accuracy` for labels, `F1` and the like for scores."""


class Judge(Protocol):
    """Grades one answer at a time; many may be under way at once."""

    @property
    def identity(self) -> JudgeIdentity:
        """Who grades."""
        ...

    async def judge(self, question: Question, gold: Gold, hypothesis: str) -> Judgement:
        """Grade `hypothesis`; a call that failed gives a judgement without a label.

        Raises:
            HarnessError: this judge cannot grade questions of this type.
            FatalModelError: no call can succeed.
        """
        ...


def judge_id(readable: str, templates_sha256: str, model: str, parameters: dict[str, Any]) -> str:
    """`readable` and the first 8 digits of a hash of all that decides a label."""
    decisive = msgspec.json.encode([templates_sha256, model, parameters], order="sorted")
    return f"{readable}-{sha256_bytes(decisive)[:8]}"
