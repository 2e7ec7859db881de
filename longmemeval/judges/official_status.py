"""Facts that follow from a judge's identity: whether it is the official judge, and the number of its grading."""

import re

from msgspec import structs

from longmemeval.judges.definition import prompts_of, rules_of
from longmemeval.judges.imported import IMPORTED, is_imported
from longmemeval.judges.people import is_person
from longmemeval.judges.protocol import JudgeIdentity, extended, judge_id
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.options import is_offline


def is_official(judge: JudgeIdentity) -> bool:
    """Return whether a judge is the benchmark's own: its rules, or its prompts, model, address and parameters."""
    if rules := rules_of(judge.model):
        return rules.identity.official and rules.identity.id == judge.id
    prompts = prompts_of(judge)
    same_model = prompts is not None and judge.model == prompts.official_model and judge.endpoint == OWN_ENDPOINT
    return same_model and has_official_prompts(judge)


def is_named_by_its_hash(judge: JudgeIdentity) -> bool:
    """Return whether the id has the hash of the identity's fields."""
    readable, _, _ = judge.id.rpartition("-")
    return judge.id == judge_id(readable, judge.templates_sha256, judge.model, judge.parameters, judge.endpoint)


def served_as_official(judge: JudgeIdentity, served: str) -> bool:
    """Return whether a server's name for its model is that of the official judge, or of a dated release of it."""
    prompts = prompts_of(judge)
    name = prompts.official_model.partition("/")[2] if prompts else ""
    return served in ("", name) or (
        bool(name) and re.fullmatch(rf"{re.escape(name)}-\d{{4}}-\d\d-\d\d", served) is not None
    )


def has_official_prompts(judge: JudgeIdentity) -> bool:
    """Return whether the judge calls once, with the benchmark's own prompts; model and address are not checked."""
    prompts = prompts_of(judge)
    return prompts is not None and bool(prompts.official_model) and judge.parameters == prompts.parameters


def is_elsewhere(judge: JudgeIdentity) -> bool:
    """Return whether the judge's model was served at another address than its provider's."""
    return judge.endpoint is not None and judge.endpoint != OWN_ENDPOINT


def _needs_no_model(judge: JudgeIdentity) -> bool:
    return is_offline(judge.model) or rules_of(judge.model) is not None


def grading(judge: JudgeIdentity) -> int:
    """Return the number of the grading of the same answers by this judge, from 1."""
    return int(judge.parameters.get("repeat", 1))


def grading_of(first: JudgeIdentity, number: int) -> JudgeIdentity:
    """Return the judge of grading `number`, from 2 on. Only the first grading counts, so no other is official."""
    return structs.replace(extended(first, {"repeat": number}), official=False)


def first_of(judge: JudgeIdentity) -> JudgeIdentity:
    """Return the judge of the first grading, given the judge of any."""
    if grading(judge) == 1:
        return judge
    others = {name: value for name, value in judge.parameters.items() if name != "repeat"}
    first = extended(structs.replace(judge, parameters=others), {})
    return structs.replace(first, official=is_official(first))


def judge_name(judge: JudgeIdentity) -> str:
    """Return the model and its distinguishing features: prompts, an earlier version of rules, votes, the address."""
    parts = [judge.model]
    if is_person(judge):
        parts += ["blind"] if judge.parameters["blind"] else []
    elif is_imported(judge):
        parts.append(IMPORTED.replace("a log", f"{judge.parameters.get('harness', 'a log')}"))
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
    return ", ".join(parts)
