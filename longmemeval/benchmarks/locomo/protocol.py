"""The way LoCoMo's authors ask a model their questions: the text added to questions of two of the five categories.

The rules are those of `task_eval/gpt_utils.py` in the official repository; the words are this project's, or come from a
file (see below). A temporal question asks for an approximate date. An adversarial question offers two answers in
random order: that the conversation does not mention it, and the trap. The official code draws the order without a seed;
here it follows from seed and question id, independently of other questions. `judge.py` reads the answer.

The category of a question is a label, and the protocol reveals it to the model: a score under it does not show
whether a system notices by itself that something was never mentioned.

The official words are in `task_eval/gpt_utils.py` of the official repository and are not shipped, because of their
licence. A file of words is an object in JSON or YAML:

| field | content |
|---|---|
| `prompt` | with `{history}` and `{question}`, and optionally `{question_date}` |
| `adversarial_prompt` | the same for questions with options [default: `prompt`] |
| `date_hint` | the addition to a temporal question |
| `options` | the addition to an adversarial question: `(a) {}` and `(b) {}` in a sentence |
| `not_mentioned` | the right option [default: "Not mentioned in the conversation"] |

In a prompt with `{}` alone, as in the official code, `{}` is the question, and the history and an empty line precede
the prompt. `date_hint` and `options` follow the question after one space, whether or not they begin with a space.
"""

import random
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Formatter
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from longmemeval.benchmarks.locomo.format import ABSTENTION_PHRASES, NOT_MENTIONED
from longmemeval.core.files import sha256_bytes, sha256_text
from longmemeval.core.text_files import decode_json, load_yaml, read_text, reading
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, HarnessError, IntegrityError, nearest
from longmemeval.records import Question

_PLACES = ("history", "question", "question_date")
_NEEDED = ("history", "question")
_REQUIRED = ("prompt", "date_hint", "options")
_UNNAMED = re.compile(r"(?<!\{)\{\}(?!\})")
_LETTERED = re.compile(r"\(a\)[^{}]*\{\}.*\(b\)[^{}]*\{\}", re.DOTALL)

OFFICIAL_SHA256 = {
    "prompt": "4f89f52b7aa19783e670d2d3dc5561dba2850c26b4705e86f456a5801f8dc35d",
    "adversarial_prompt": "d0f42bc6d60c90d2a20349d7a1993b53d7f33cbf7eaae6184a1c90f6670683fc",
    "date_hint": "005c2642a60912b075d37ad86c336e3672c58b47d8a41bafa16b991b57518a99",
    "options": "44b05c671546f9621344d373d2514c714184693ba673e46732abbe264af66d76",
    "not_mentioned": "2a542960aa38558c7ea526c58ca44e64944dd4a6c9c9db658f3fa6f6da9792c3",
}
"""Hashes of the official texts (`task_eval/gpt_utils.py`: QA_PROMPT, QA_PROMPT_CAT_5 and the additions of
`get_gpt_answers`), each as `load_texts` returns it."""


class Wording(Struct, frozen=True):
    """The texts that the protocol adds to questions."""

    date_hint: str
    options: str
    """Text with a placeholder `{}` for each of the two answers."""
    not_mentioned: str = NOT_MENTIONED


OURS = Wording(
    date_hint="Go by the dates on which things were said, and answer with an approximate date.",
    options="Choose the right answer: (a) {} (b) {}",
)


class ProtocolTexts(Wording, frozen=True, kw_only=True):
    """All texts of the protocol, from a file; made by `load_texts`, which validates them."""

    prompt: str
    adversarial_prompt: str
    """The prompt of questions with options."""

    @property
    def sha256(self) -> str:
        """Hash of the five texts, as canonical JSON."""
        return sha256_bytes(msgspec.json.encode(self, order="sorted"))

    @property
    def official(self) -> bool:
        """True if they are the official texts, letter for letter."""
        return all(sha256_text(getattr(self, name)) == digest for name, digest in OFFICIAL_SHA256.items())


def load_texts(file: Path) -> ProtocolTexts:
    """Read the texts of a file as described above.

    Raises:
        HarnessError: the file is unreadable or lacks a text, or a text lacks a placeholder.
    """
    with reading("The template", file):
        text = read_text(file)
        document = decode_json(text, object) if file.suffix == ".json" else load_yaml(text)
    if not isinstance(document, dict):
        raise HarnessError(
            f"The template is not an object with {', '.join(_REQUIRED)}",
            where=str(file),
            fix="Put a prompt alone into a file with another ending, such as .txt",
        )
    return _checked(document, str(file))


def protocol_record(seed: int, texts: ProtocolTexts | None) -> dict[str, Any]:
    """Return the record of the protocol for a manifest's `settings.protocol`.

    Args:
        seed: seed of the order of the options.
        texts: texts of a file; None: our own words, which need not be recorded.
    """
    record: dict[str, Any] = {"name": "official", "seed": seed}
    if texts:
        record |= {"texts": msgspec.to_builtins(texts), "texts_sha256": texts.sha256}
    return record


def recorded_texts(record: Mapping[str, Any]) -> ProtocolTexts | None:
    """Return the texts in a manifest's `settings.protocol`; None: our own words.

    Raises:
        IntegrityError: they do not have the recorded hash.
    """
    if "texts" not in record:
        return None
    try:
        texts = msgspec.convert(record["texts"], ProtocolTexts)
    except msgspec.ValidationError as error:
        raise IntegrityError(f"The texts of the protocol are damaged: {error}", where="run.json") from error
    if texts.sha256 != record.get("texts_sha256"):
        raise IntegrityError(
            "The texts of the protocol are not those of the run (their sha256 differs)",
            where="run.json, settings.protocol",
            fix="Restore it from a copy",
        )
    return texts


def wording_note(record: Mapping[str, Any], official_metric: bool) -> str:
    """Return the note for all scores under the protocol; empty for a run without it.

    Args:
        record: a manifest's `settings.protocol`; empty without a protocol.
        official_metric: True if the score is the benchmark's own.
    """
    if record.get("name") != "official":
        return ""
    texts = recorded_texts(record)
    metric = "official metric, " if official_metric else ""
    if texts is None:
        whose = "our prompts, not comparable with published figures; `run --template` takes the official texts"
    elif not texts.official:
        whose = "prompts of a file that are not the official ones, not comparable with published figures"
    else:
        whose = "the official prompt texts; the history is laid out by this harness"
    return f"LoCoMo's two-option protocol: {metric}{whose}."


def _checked(document: Mapping[str, object], where: str) -> ProtocolTexts:
    fields = ProtocolTexts.__struct_fields__
    for name, value in document.items():
        if name not in fields:
            raise HarnessError(f"The template has no field '{name}'", where=where, fix=nearest(str(name), fields))
        if not isinstance(value, str) or not value.strip():
            raise HarnessError(f"'{name}' of the template is not a text", where=where, fix="Put it in quotes")
    values = {name: str(value) for name, value in document.items()}
    for name in _REQUIRED:
        if name not in values:
            raise HarnessError(f"The template has no '{name}'", where=where, fix=f"Add the field '{name}'")
    prompt = _prompt(values["prompt"], f"{where}, prompt")
    other = values.get("adversarial_prompt")
    texts = ProtocolTexts(
        prompt=prompt,
        adversarial_prompt=prompt if other is None else _prompt(other, f"{where}, adversarial_prompt"),
        date_hint=values["date_hint"].removeprefix(" "),
        options=values["options"].removeprefix(" "),
        not_mentioned=values.get("not_mentioned", NOT_MENTIONED),
    )
    _check_options(texts, where)
    return texts


def _prompt(text: str, where: str) -> str:
    """Return `text` with named placeholders."""
    places = _places(text, where)
    if places == [""] and _UNNAMED.search(text):
        return "{history}\n\n" + _UNNAMED.sub("{question}", text)
    for name in places:
        if name not in _PLACES:
            fix = nearest(name, _PLACES) if name else "Name the placeholders, or write a single {} for the question"
            raise HarnessError(f"The template has an unknown placeholder '{name}'", where=where, fix=fix)
    for name in _NEEDED:
        if name not in places:
            raise HarnessError(f"The template lacks {{{name}}}", where=where, fix="Add the placeholder")
    return text


def _check_options(texts: ProtocolTexts, where: str) -> None:
    if _places(texts.options, f"{where}, options") != ["", ""] or not _LETTERED.search(texts.options):
        raise HarnessError(
            "The options are not offered as (a) and (b)",
            where=f"{where}, options",
            fix='Write "(a) {} (b) {}" in it: a reply of one letter is read as one of them',
        )
    if not any(phrase in texts.not_mentioned.lower() for phrase in ABSTENTION_PHRASES):
        raise HarnessError(
            "The right option would be scored as wrong",
            where=f"{where}, not_mentioned",
            fix="LoCoMo's score looks for " + " or ".join(f"'{phrase}'" for phrase in ABSTENTION_PHRASES) + " in it",
        )


def _places(text: str, where: str) -> list[str]:
    """Return the names of the placeholders of a text in order, empty for unnamed ones."""
    try:
        parts = [part for part in Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise HarnessError(
            f"The template cannot be parsed: {error}", where=where, fix="Write {{ and }} for literal braces"
        ) from error
    formats = [
        (f"!{conversion}" if conversion else "") + (f":{form}" if form else "") for *_, form, conversion in parts
    ]
    return [f"{part[1]}{form}" for part, form in zip(parts, formats, strict=True)]


def official_questions(
    dataset: Dataset, questions: Iterable[Question], seed: int, wording: Wording | None = None
) -> list[Question]:
    """Return the questions with the additions of the official protocol in `appended` and `options`; their texts stay.

    Args:
        dataset: data of LoCoMo's format. Only the category and the trap of a question's gold are read.
        questions: questions of `dataset`.
        seed: decides the order of the two options of each adversarial question.
        wording: wording of a file; None: our own.
    """
    return [_official(dataset, question, seed, wording or OURS) for question in questions]


def _official(dataset: Dataset, question: Question, seed: int, wording: Wording) -> Question:
    gold = dataset.gold(question.question_id)
    if gold.abstention:
        if gold.trap is None:
            what = f"The official protocol offers the trap of question '{question.question_id}', which the data lacks"
            fix = "Add its field adversarial_answer, leave such questions out, or omit --protocol official"
            raise DataError(what, where=str(dataset.path), fix=fix)
        options = _shuffled(wording.not_mentioned, gold.trap, f"{seed}:{question.question_id}")
        return replace(question, appended=wording.options.format(*options), options=options)
    return replace(question, appended=wording.date_hint if gold.question_type == "temporal" else "", options=())


def _shuffled(first: str, second: str, seed: str) -> tuple[str, str]:
    # Seeding with a text hashes it in the same way in every process.
    return (first, second) if random.Random(seed).random() < 0.5 else (second, first)
