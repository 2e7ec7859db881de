"""The chat model's verdicts on contradictions that nothing else can settle."""

from collections.abc import Callable, Mapping
from functools import partial
from string import Template
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes
from longmemeval.llm.json_reply import mark_of, one_line, prompt_texts
from longmemeval.llm.protocol import ChatModel
from longmemeval.memory.asking import Asker, Drop, Extracted, gather_limited
from longmemeval.memory.engram.records import Claim
from longmemeval.memory.engram.timeline import Verdict

_VERDICTS: dict[str, Verdict] = {"update": "update", "elaboration": "same", "both": "both", "unclear": "unclear"}


class Answered(Struct, frozen=True):
    """The result for one pair of claims."""

    verdict: Verdict
    notes: tuple[str, ...] = ()
    """The reason, if the reply was not a verdict."""


class Decisions:
    """Verdicts on pairs of claims: a `Decide` that answers "unclear" for pairs without a verdict.

    Args:
        known: verdicts by a hash of the two claims.
    """

    def __init__(self, known: Mapping[str, Verdict]) -> None:
        self.known = dict(known)
        self.used: dict[str, Verdict] = {}
        """Known verdicts that were requested since `begin`."""
        self.open: dict[str, tuple[Claim, Claim]] = {}
        """Pairs that were requested since `begin` and have no verdict."""

    def begin(self) -> None:
        """Forget which pairs were requested."""
        self.used.clear()
        self.open.clear()

    def __call__(self, older: Claim, newer: Claim) -> Verdict:
        """Return the verdict on the two claims."""
        key = sha256_bytes(msgspec.json.encode((older, newer)))[:24]
        if key in self.known:
            self.used[key] = self.known[key]
        else:
            self.open[key] = (older, newer)
        return self.known.get(key, "unclear")


class Judge:
    """Asks a chat model how two claims relate.

    Args:
        model: answers the calls; its errors pass through.
    """

    def __init__(self, model: ChatModel) -> None:
        prompts = prompt_texts(__package__, "verdict", "verdict-user")
        repair = prompt_texts(__package__, "verdict-repair")["verdict-repair"]
        self._asker = Asker(model, {**prompts, "repair": repair}, "verdicts", 1)

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe of the verdicts, without the model."""
        return {"verdict_prompts_sha256": self._asker.recipe["prompts_sha256"]}

    async def answer(self, decisions: Decisions, most: int, transcript: Callable[[Claim], str]) -> list[Answered]:
        """Have the model decide the first open pairs.

        Args:
            decisions: has the open pairs; receives the verdicts.
            most: maximum number of pairs.
            transcript: returns the messages that a claim is from, as the prompt shows them.
        """
        pairs = dict(list(decisions.open.items())[:most])
        answered = await gather_limited([partial(self._decide, *pair, transcript) for pair in pairs.values()])
        decisions.known |= {key: answer.verdict for key, answer in zip(pairs, answered, strict=True)}
        return answered

    async def _decide(self, older: Claim, newer: Claim, transcript: Callable[[Claim], str]) -> Answered:
        text = "\n\n".join(dict.fromkeys((transcript(older), transcript(newer))))
        user = Template(self._asker.prompts["verdict-user"]).substitute(
            older=one_line(older.text), newer=one_line(newer.text), text=text, mark=mark_of(text)
        )
        where = f"{newer.valid_at:%Y-%m-%d} {newer.subject}, {newer.predicate}"
        found: Extracted[Verdict] = await self._asker.ask(self._asker.prompts["verdict"], user, _word, where)
        if found.items:
            return Answered(found.items[0])
        return Answered("unclear", found.notes[:1] or (f"{where}: no verdict",))


def _word(raw: object) -> Verdict | Drop:
    verdict = _VERDICTS.get(raw.strip().casefold()) if isinstance(raw, str) else None
    return verdict or Drop("verdict", f"{str(raw)[:40]!r} is none of {', '.join(_VERDICTS)}")
