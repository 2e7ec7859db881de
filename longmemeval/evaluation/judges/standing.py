"""What a judge's identity bears out: whether its figures are the official judge's, and which grading they are of."""

from longmemeval.evaluation.judges.imported import IMPORTED
from longmemeval.evaluation.judges.longmemeval import DEFAULT_JUDGE, PARAMETERS, TEMPLATES_SHA256
from longmemeval.evaluation.judges.protocol import JudgeIdentity
from longmemeval.evaluation.registry import RULES
from longmemeval.llm.endpoints import OWN_ENDPOINT
from longmemeval.llm.registry import is_offline


def is_official(judge: JudgeIdentity) -> bool:
    """Whether the identity is a benchmark's own judge: its rules, or its prompts, model, address and parameters."""
    if judge.model in RULES:
        rules = RULES[judge.model]().identity
        return rules.official and rules.id == judge.id
    return has_official_prompts(judge) and judge.model == DEFAULT_JUDGE and judge.endpoint == OWN_ENDPOINT


def has_official_prompts(judge: JudgeIdentity) -> bool:
    """Whether the judge asks once, in LongMemEval's own words; of whom and where is not looked at."""
    return judge.templates_sha256 == TEMPLATES_SHA256 and judge.parameters == PARAMETERS


def is_elsewhere(judge: JudgeIdentity) -> bool:
    """Whether the judge's model was served by somebody else than its provider."""
    return judge.endpoint is not None and judge.endpoint != OWN_ENDPOINT


def address_unknown(judge: JudgeIdentity) -> bool:
    """Whether a chat model graded at an address that was not recorded, as an earlier version did not."""
    return judge.endpoint is None and not is_offline(judge.model) and judge.templates != IMPORTED
