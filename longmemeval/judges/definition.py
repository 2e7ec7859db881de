"""The door `longmemeval.judges`: rules that need no model, and prompts for one."""

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
    """Prompts that code makes, a benchmark's own byte for byte. Judges name them by their name in the door."""

    sha256: str
    """What the identities of their judges carry as `templates_sha256`."""
    parameters: Mapping[str, Any]
    """Of each call."""
    judge: Callable[[ChatModel, str | None, Path], Judge]
    """From a chat model, where it is served if that is known, and the data folder, where texts that may not be shipped
    are, to the judge."""
    read: Callable[[str], bool | None]
    """From a reply to its label; None for one that says nothing."""
    official_model: str = ""
    """With its provider, such as `openai/gpt-4o-2024-08-06`; empty where no judge of these prompts is official."""
    verdict: Callable[[str, Gold, str], Verdict] | None = None
    """From `Judgement.raw`, the gold and the answer to label and score, where one reply alone (`read`) does not give
    them; such judges are asked once."""
    sends: str = ""
    """Hash of the words that are sent: judges with the same one read each other's replies. Empty: shared with none."""


@dataclass(frozen=True)
class JudgeDefinition:
    """What a name of the door stands for: one of the three."""

    rules: Callable[[], RuleJudge] | None = None
    """Makes the judge of rules whose spec is the name."""
    prompts: Prompts | None = None
    prompt_set: Path | None = None
    """File of a template set of that name (`judges/template_set.py`)."""


JUDGE_DEFINITIONS = Registry(JUDGES, "judge", JudgeDefinition)


@lru_cache(maxsize=256)
def _defined(name: str) -> JudgeDefinition | None:
    try:
        return JUDGE_DEFINITIONS.get(name) if name in JUDGE_DEFINITIONS else None
    except HarnessError:
        # A package that is broken now must not keep anybody from reading what it graded before.
        return None


def rules_of(spec: str) -> RuleJudge | None:
    """The judge of rules that `spec` names; None where it names something else, such as a chat model."""
    definition = _defined(spec)
    return definition.rules() if definition and definition.rules else None


def rule_names() -> list[str]:
    """The specs of the judges that need no model and come with this package."""
    return sorted(name for name in JUDGE_DEFINITIONS.built_in if rules_of(name))


def set_names() -> list[str]:
    """The names that can come before `@MODEL`: prompts of this package, and whatever other packages bring."""
    rules = rule_names()
    return sorted(name for name in JUDGE_DEFINITIONS.names() if name not in rules)


def prompts_of(judge: JudgeIdentity) -> Prompts | None:
    """The prompts of the door that a judge asked with; None for rules, template sets and imported labels."""
    definition = _defined(judge.templates.lower())
    prompts = definition.prompts if definition else None
    return prompts if prompts and prompts.sha256 == judge.templates_sha256 else None
