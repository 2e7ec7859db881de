"""A judge's prompts as data: a JSON or YAML file, validated when read and identified by the hash of its content.

    {
      "name": "mine",                   letters, digits, "_", "." and "-"; judge ids begin with it
      "source": "…", "licence": "…",    optional: where the texts come from and how they may be used
      "reply": "yes-no",                how a reply is read, see below
      "max_tokens": 100,                maximum length of a reply; a model that thinks first needs thousands
      "temperature": 0.0,               optional
      "templates": {                    the prompts, under names of your own
        "fact": "… {question} … {answer} … {hypothesis} …",
        "facts": "… {question} … {answer} … {evidence} … {hypothesis} …",
        "refusal": "… {question} … {hypothesis} …"
      },
      "choose": {                       which of them grades which question
        "default": "fact",
        "abstention": "refusal",
        "user-facts, several evidence": "facts"
      }
    }

A template has these placeholders; the first two are required. Literal braces are doubled.

| placeholder | content |
|---|---|
| `{question}` | the question, with its options if it offers any |
| `{hypothesis}` | the answer to grade |
| `{answer}` | the right answer, or the rubric |
| `{evidence}` | the messages with the evidence, each on a line of its own; not every benchmark has them |

The first of these keys that `choose` has is used: "abstention" for a question without an answer, "TYPE, several
evidence" for one with more than one evidence message, "TYPE", "default". The first and the last are required: an
invented answer could be graded right if an unanswerable question were graded like any other.

| `reply` | right | wrong | both |
|---|---|---|---|
| `yes-no` | the word "yes" | the word "no" | unreadable |
| `right-wrong` | "right" anywhere | "wrong" anywhere | wrong |
| `label-json` | `"label": "correct"` | `"label": "wrong"` | unreadable |

Case is ignored. A reply with neither is unreadable as well: its question counts as not evaluated.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import msgspec
from msgspec import structs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from longmemeval.core.files import sha256_bytes
from longmemeval.core.text_files import YamlText, decode_json, load_yaml, read_text, reading
from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.asking import ask, readable
from longmemeval.judges.definition import JUDGE_DEFINITIONS, prompts_of, rules_of, set_names
from longmemeval.judges.people import IMPORTED, is_imported, is_person
from longmemeval.judges.protocol import JudgeIdentity, extended, judge_id
from longmemeval.judges.question_types import QuestionTypes
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.options import is_offline
from longmemeval.llm.protocol import ChatModel
from longmemeval.records import Gold, Judgement, Question

FILE_ENDINGS = (".json", ".yaml", ".yml")

_PLACES = ("question", "answer", "hypothesis", "evidence")
_NEEDED_PLACES = ("question", "hypothesis")
_CHOSEN = ("reasoning_effort", "reasoning_budget")
"""Parameters by which a user tells two judges of one model apart."""
_DEFAULT, _ABSTENTION = "default", "abstention"
_SEVERAL = ", several evidence"


class _Reading(NamedTuple):
    """Patterns that are searched for in a reply in lower case."""

    right: re.Pattern[str]
    wrong: re.Pattern[str]
    both: bool | None = None


READINGS = {
    "yes-no": _Reading(re.compile(r"\byes\b"), re.compile(r"\bno\b")),
    "right-wrong": _Reading(re.compile("right"), re.compile("wrong"), both=False),
    "label-json": _Reading(re.compile(r'"label"\s*:\s*"correct"'), re.compile(r'"label"\s*:\s*"wrong"')),
}


def read_reply(kind: str, reply: str) -> bool | None:
    """Return the label of `reply` by the table above, `kind` being one of `READINGS`; None when it is unreadable."""
    reading, text = READINGS[kind], reply.lower()
    right, wrong = reading.right.search(text), reading.wrong.search(text)
    if right and wrong:
        return reading.both
    return bool(right) if right or wrong else None


class TemplateSet(BaseModel):
    """The content of a file as described above; made by `load_template_set`, which checks what types cannot express."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")
    source: str = ""
    licence: str = ""
    reply: str
    max_tokens: int = Field(ge=1)
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    templates: dict[str, str]
    choose: dict[str, str]

    @property
    def sha256(self) -> str:
        """Hash of everything that decides a label, as canonical JSON: all but name, source and licence."""
        decisive = self.model_dump(exclude={"name", "source", "licence"})
        return sha256_bytes(msgspec.json.encode(decisive, order="sorted"))

    def prompt(self, question: Question, gold: Gold, hypothesis: str) -> str:
        """Return the prompt for a label; filled in one pass, so that braces in the values stay as they are.

        Raises:
            HarnessError: the template shows the evidence, but the data does not have its text.
        """
        name = self._chosen(gold)
        template = self.templates[name]
        if not gold.evidence_texts and "evidence" in _places(template):
            raise HarnessError(
                f"The template '{name}' of the judge '{self.name}' shows the evidence, but the data lacks its text",
                where=f"question {question.question_id}",
                fix="Grade with a set whose templates do not use {evidence}",
            )
        return template.format(
            question=question.text + (question.appended if question.options else ""),
            answer=gold.answer,
            hypothesis=hypothesis,
            evidence="\n".join(gold.evidence_texts),
        )

    def _chosen(self, gold: Gold) -> str:
        if gold.abstention:
            return self.choose[_ABSTENTION]
        keys = [gold.question_type, _DEFAULT]
        if gold.facets.get("evidence", 0) > 1:
            keys.insert(0, gold.question_type + _SEVERAL)
        return next(self.choose[key] for key in keys if key in self.choose)


def choices(types: Sequence[QuestionTypes]) -> tuple[str, ...]:
    """Return all keys that `choose` can have, where these are the types of all benchmarks."""
    named = [name for benchmark in types for name in benchmark.order]
    several = [name + _SEVERAL for benchmark in types for name in benchmark.several_evidence]
    return tuple(dict.fromkeys((_DEFAULT, _ABSTENTION, *named, *several)))


def load_template_set(name_or_file: str, known: Collection[str] | None = None) -> TemplateSet:
    """Return the template set registered under a name in `longmemeval.judges`, or the user's own from its file.

    Args:
        name_or_file: name or path of the set.
        known: keys that `choose` may have (`choices`); None: any.

    Raises:
        HarnessError: there is no such set or file, or it is not as described above; names the nearest valid name.
    """
    if not name_or_file.endswith(FILE_ENDINGS):
        if name_or_file not in JUDGE_DEFINITIONS:
            raise HarnessError(f"Unknown template set '{name_or_file}'", fix=nearest(name_or_file, set_names()))
        file = JUDGE_DEFINITIONS.get(name_or_file).prompt_set
        if file is None:
            raise HarnessError(f"The judge '{name_or_file}' is not a template set", fix=nearest("", set_names()))
        return _load(file, known)
    templates = _load(Path(name_or_file), known)
    if templates.name.lower() in JUDGE_DEFINITIONS:
        raise HarnessError(
            f"The name '{templates.name}' belongs to a set that is shipped with this package",
            where=name_or_file,
            fix="Give yours another name, so that their scores stay distinct",
        )
    return templates


def _load(path: Path, known: Collection[str] | None) -> TemplateSet:
    document = _read(path)
    try:
        templates = TemplateSet.model_validate(document)
    except ValidationError as error:
        raise _refusal(error, YamlText(path).place(*error.errors()[0]["loc"])) from error
    if templates.reply not in READINGS:
        what = f"A reply cannot be read as '{templates.reply}'"
        raise HarnessError(what, where=f"{path}, reply", fix=nearest(templates.reply, READINGS))
    for name, text in templates.templates.items():
        _check_template(text, f"{path}, template '{name}'")
    _check_choice(templates, f"{path}, choose", known)
    return templates


def _read(path: Path) -> Mapping[str, Any]:
    with reading("The template set", path, f"is not {path.suffix.removeprefix('.').upper()}"):
        text = read_text(path)
        document = decode_json(text, object) if path.suffix == ".json" else load_yaml(text)
    if not isinstance(document, dict):
        raise HarnessError("The template set is not an object with name, reply, templates and more", where=str(path))
    return document


def _refusal(error: ValidationError, where: str) -> HarnessError:
    """Return the first problem that pydantic found, as a `HarnessError`."""
    problem = error.errors()[0]
    field, value = ".".join(map(str, problem["loc"])), problem["input"]
    if problem["type"] == "extra_forbidden":
        return HarnessError(
            f"A template set has no field '{field}'", where=where, fix=nearest(field, TemplateSet.model_fields)
        )
    if problem["type"] == "missing":
        return HarnessError(f"The template set has no '{field}'", where=where, fix=f"Add the field '{field}'")
    return HarnessError(f"'{field}' of the template set cannot be {value!r}", where=where, fix=problem["msg"])


def _check_template(text: str, where: str) -> None:
    try:
        places = _places(text)
    except ValueError as error:
        raise HarnessError(
            f"The template cannot be parsed: {error}", where=where, fix="Write {{ and }} for literal braces"
        ) from error
    for place in places:
        if place not in _PLACES:
            raise HarnessError(
                f"The template has an unknown placeholder {{{place}}}",
                where=where,
                fix=f"{nearest(place, _PLACES)}. Write {{{{ and }}}} for literal braces",
            )
    for place in _NEEDED_PLACES:
        if place not in places:
            raise HarnessError(
                f"The template lacks {{{place}}}", where=where, fix="Add the placeholder: the judge must see it"
            )


def _places(text: str) -> list[str]:
    """Return the placeholders of a template, with their conversions and formats, if any: valid ones have none.

    Raises:
        ValueError: single braces.
    """
    return [
        name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
        for _, name, form, conversion in Formatter().parse(text)
        if name is not None
    ]


def _check_choice(templates: TemplateSet, where: str, known: Collection[str] | None) -> None:
    for needed in (_ABSTENTION, _DEFAULT):
        if needed not in templates.choose:
            raise HarnessError(
                f"No template is chosen for '{needed}'", where=where, fix=f'Add "{needed}" with the name of a template'
            )
    for key, name in templates.choose.items():
        if known is not None and key not in known:
            raise HarnessError(f"Unknown question type '{key}'", where=where, fix=nearest(key, known))
        if name not in templates.templates:
            raise HarnessError(
                f"'{key}' chooses the template '{name}', which does not exist",
                where=where,
                fix=nearest(name, templates.templates),
            )
    for name in templates.templates:
        if name not in templates.choose.values():
            raise HarnessError(
                f"The template '{name}' is never chosen", where=where, fix="Choose it for a question type, or remove it"
            )


# A judge made of a template set and a chat model.


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


# Facts that follow from a judge's identity: whether it is the official judge, and the number of its grading.


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
    chosen = [name for name in _CHOSEN if name in judge.parameters]
    parts += [f"{name.replace('_', ' ')}: {judge.parameters[name]}" for name in chosen]
    if "votes" in judge.parameters:
        parts.append(f"{judge.parameters['votes']} votes")
    if grading(judge) > 1:
        parts.append(f"grading {grading(judge)}")
    if is_elsewhere(judge):
        parts += ["official prompts"] if has_official_prompts(judge) else []
        parts.append(f"served at {judge.endpoint}")
    return ", ".join(parts)
