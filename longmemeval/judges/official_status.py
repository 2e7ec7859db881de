"""What a judge's identity bears out: whether its figures are the official judge's, and which grading they are of."""

import re

from msgspec import structs

from longmemeval.judges.definition import prompts_of, rules_of
from longmemeval.judges.imported import IMPORTED, is_imported
from longmemeval.judges.protocol import JudgeIdentity, extended, judge_id
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.options import is_offline


def is_official(judge: JudgeIdentity) -> bool:
    """Whether the identity is a benchmark's own judge: its rules, or its prompts, model, address and parameters."""
    if rules := rules_of(judge.model):
        return rules.identity.official and rules.identity.id == judge.id
    prompts = prompts_of(judge)
    asked = prompts is not None and judge.model == prompts.official_model and judge.endpoint == OWN_ENDPOINT
    return asked and has_official_prompts(judge)


def is_named_by_its_hash(judge: JudgeIdentity) -> bool:
    """Whether what the identity says has the hash in its id."""
    readable, _, _ = judge.id.rpartition("-")
    return judge.id == judge_id(readable, judge.templates_sha256, judge.model, judge.parameters, judge.endpoint)


def served_as_official(judge: JudgeIdentity, served: str) -> bool:
    """Whether a server's name for its model is that of the official judge, or of a dated release of it."""
    prompts = prompts_of(judge)
    name = prompts.official_model.partition("/")[2] if prompts else ""
    return served in ("", name) or (
        bool(name) and re.fullmatch(rf"{re.escape(name)}-\d{{4}}-\d\d-\d\d", served) is not None
    )


def has_official_prompts(judge: JudgeIdentity) -> bool:
    """Whether the judge asks once, in the benchmark's own words; of whom and where is not looked at."""
    prompts = prompts_of(judge)
    return prompts is not None and bool(prompts.official_model) and judge.parameters == prompts.parameters


def is_elsewhere(judge: JudgeIdentity) -> bool:
    """Whether the judge's model was served by somebody else than its provider."""
    return judge.endpoint is not None and judge.endpoint != OWN_ENDPOINT


def address_unknown(judge: JudgeIdentity) -> bool:
    """Whether a chat model graded at an address that was not recorded, as an earlier version did not."""
    return judge.endpoint is None and not _needs_no_model(judge) and not is_imported(judge)


def _needs_no_model(judge: JudgeIdentity) -> bool:
    return is_offline(judge.model) or rules_of(judge.model) is not None


def grading(judge: JudgeIdentity) -> int:
    """Which grading of the same answers by this judge it is, from 1."""
    return int(judge.parameters.get("repeat", 1))


def grading_of(first: JudgeIdentity, number: int) -> JudgeIdentity:
    """The judge of grading `number`, from 2 on. Only the first grading counts, so no other is official."""
    return structs.replace(extended(first, {"repeat": number}), official=False)


def first_of(judge: JudgeIdentity) -> JudgeIdentity:
    """The judge of the first grading, whichever it is that `judge` made."""
    if grading(judge) == 1:
        return judge
    others = {name: value for name, value in judge.parameters.items() if name != "repeat"}
    first = extended(structs.replace(judge, parameters=others), {})
    return structs.replace(first, official=is_official(first))


def judge_name(judge: JudgeIdentity) -> str:
    """Return the model, and what makes it another judge: prompts, an earlier version of rules, votes, the address."""
    parts = [judge.model]
    if is_imported(judge):
        parts.append(IMPORTED)
    elif not _needs_no_model(judge) and not ((prompts := prompts_of(judge)) and prompts.official_model):
        parts.append(f"prompts: {judge.templates}")
    if (rules := rules_of(judge.model)) and rules.identity.templates_sha256 != judge.templates_sha256:
        parts.append(judge.templates)
    if "votes" in judge.parameters:
        parts.append(f"{judge.parameters['votes']} votes")
    if grading(judge) > 1:
        parts.append(f"grading {grading(judge)}")
    if is_elsewhere(judge):
        parts += ["official prompts"] if has_official_prompts(judge) else []
        parts.append(f"served at {judge.endpoint}")
    if address_unknown(judge):
        parts.append("address not recorded")
    return ", ".join(parts)
