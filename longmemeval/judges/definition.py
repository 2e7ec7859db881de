"""Definitions of judges, registered as plugins under `longmemeval.judges`: rules without a model, or prompts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from longmemeval.errors import HarnessError
from longmemeval.judges.offline.rules import RuleJudge, Verdict
from longmemeval.judges.protocol import Judge, JudgeIdentity
from longmemeval.llm.protocol import ChatModel
from longmemeval.plugins import JUDGES, Registry
from longmemeval.records import Gold


@dataclass(frozen=True)
class Prompts:
    """Prompts built by code, byte for byte those of a benchmark. Judges record their registered name."""

    sha256: str
    """Hash in the identities of their judges (`templates_sha256`)."""
    parameters: Mapping[str, Any]
    """Parameters of each call."""
    judge: Callable[[ChatModel, str | None, Path], Judge]
    """Makes the judge from a chat model, the address that serves it, if known, and the data folder, which holds texts
    that may not be shipped."""
    read: Callable[[str], bool | None]
    """Maps a reply to its label; None for an unreadable one."""
    official_model: str = ""
    """Model with its provider, such as `openai/gpt-4o-2024-08-06`; empty if no judge of these prompts is official."""
    verdict: Callable[[str, Gold, str], Verdict] | None = None
    """Maps `Judgement.raw`, the gold and the answer to label and score, for judges whose label does not follow from the
    reply alone (`read`); such judges cannot vote."""
    sends: str = ""
    """Hash of the texts that are sent: judges with the same hash share cached replies. Empty: nothing is shared."""


@dataclass(frozen=True)
class JudgeDefinition:
    """The definition of a registered judge: exactly one of its rules, prompts and prompt set is set."""

    rules: Callable[[], RuleJudge] | None = None
    """Makes the rule judge whose spec is the name."""
    prompts: Prompts | None = None
    prompt_set: Path | None = None
    """File of a template set of that name (`judges/template_set.py`)."""
    compares_words: bool = False
    """True if the rules compare English words: they fail right answers in other languages, and planted answers are too
    easy for them, so only answers labelled by hand correct their scores."""


JUDGE_DEFINITIONS = Registry(JUDGES, "judge", JudgeDefinition)


@lru_cache(maxsize=256)
def _defined(name: str) -> JudgeDefinition | None:
    try:
        return JUDGE_DEFINITIONS.get(name) if name in JUDGE_DEFINITIONS else None
    except HarnessError:
        # A broken plugin must not prevent reading runs that it graded earlier.
        return None


def rules_of(spec: str) -> RuleJudge | None:
    """Return the rule judge that `spec` names; None if it names something else, such as a chat model."""
    definition = _defined(spec)
    return definition.rules() if definition and definition.rules else None


def compares_words(judge: JudgeIdentity) -> bool:
    """Return whether a judge compares English words (`JudgeDefinition.compares_words`)."""
    definition = _defined(judge.model)
    return definition is not None and definition.compares_words


def rule_names() -> list[str]:
    """Return the specs of the judges that need no model and come with this package."""
    return sorted(name for name in JUDGE_DEFINITIONS.built_in if rules_of(name))


def set_names() -> list[str]:
    """Return the names allowed before `@MODEL`: prompts of this package, and those of plugins."""
    rules = rule_names()
    return sorted(name for name in JUDGE_DEFINITIONS.names() if name not in rules)


def prompts_of(judge: JudgeIdentity) -> Prompts | None:
    """Return the registered prompts of a judge; None for rules, template sets and imported labels."""
    definition = _defined(judge.templates.lower())
    prompts = definition.prompts if definition else None
    return prompts if prompts and prompts.sha256 == judge.templates_sha256 else None
