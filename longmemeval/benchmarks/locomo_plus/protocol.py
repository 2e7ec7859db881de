"""The way LoCoMo-Plus's authors show a model a trigger: `data/unified_input.py` and `task_eval/utils.py` at 059f4e3.

One message: their opening line, their instruction to show that the memory is there, and the conversation as lines
`Name said, "text"` without dates, captions or borders of sessions, the trigger as the last of them. The words are read
from the user's copy of their code: no licence allows us to ship them.

`datasets download locomo-plus` puts `locomo_plus_prompt.py` (the judge's prompts) and `locomo_plus_utils.py` (those for
triggers) into the data folder. They are parsed, never executed, and a text counts only if it has the official hash.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from longmemeval.core.files import sha256_text
from longmemeval.core.text.words import content_words
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.judges.plants.planting import Ground, Made, Make, non_answers
from longmemeval.llm.protocol import ChatMessage
from longmemeval.records import Gold, Question, Recall

if TYPE_CHECKING:
    from longmemeval.benchmarks.locomo_plus.loader import LocomoPlusDataset
    from longmemeval.reading.prompts import Compose


PROMPT_FILE, TASK_FILE = "locomo_plus_prompt.py", "locomo_plus_utils.py"
OPENING, COGNITIVE_JUDGE, COGNITIVE_TASK = "CONV_START_PROMPT", "Cognitive", "INSTRUCTION_COGNITIVE"
SHA256 = {
    OPENING: "bfb101603e38a36cfecfb7e989ae51d537907ad7ac0b89020e2b7c01046d3cb7",
    COGNITIVE_JUDGE: "83875348ab831a4f2932457bc951d37654db9f77ecaf50e7a8aacf5ff566a08b",
    COGNITIVE_TASK: "b9f2dd0d22ec2bf45fad034c90d94f61cb9f4776999220e50dc811ebc8f7d9d3",
}
"""Hashes of texts in `evaluation_framework/task_eval/prompt.py` and `utils.py` at 059f4e3, by their names there."""


def official_texts(file: Path, *names: str) -> dict[str, str]:
    """Return texts of a Python file, by the names of variables or of keys of a dictionary.

    Raises:
        HarnessError: the file cannot be read as Python.
        IntegrityError: a text is missing, or is not the official one.
    """
    try:
        texts = dict(_texts(ast.parse(file.read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise HarnessError(f"The file of prompts cannot be read: {error}", where=str(file)) from error
    for name in names:
        if sha256_text(texts.get(name, "")) != SHA256[name]:
            what = f"The file of prompts does not have the official text of {name}"
            fix = "Run `longmemeval datasets download locomo-plus`; without the file judges use our own wording"
            raise IntegrityError(what, where=str(file), fix=fix)
    return {name: texts[name] for name in names}


def _texts(module: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in module.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        value = statement.value
        pairs = zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else [(None, value)]
        for key, text in pairs:
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                named = key.value if isinstance(key, ast.Constant) else statement.targets[0].id
                yield str(named), text.value


FAILED = "a failed call is no answer, where theirs grades its error message"
CHOSEN = "the memory chooses what is shown of the conversation, where theirs shows all of it"


def protocol_record(seed: int, texts: object, whole_history: bool) -> dict[str, Any]:
    """Return the record of the protocol for a manifest's `settings.protocol`; nothing is random, so it has no seed."""
    return {
        "name": "official",
        "texts_sha256": {name: SHA256[name] for name in (OPENING, COGNITIVE_TASK)},
        "deviations": [FAILED] if whole_history else [CHOSEN, FAILED],
    }


def compose(dataset: "LocomoPlusDataset", data_dir: Path, record: Mapping[str, Any]) -> "Compose":
    """Return the composer of the message of a call.

    Args:
        dataset: the data set of the questions.
        data_dir: folder with the authors' file.
        record: a manifest's `settings.protocol`.

    Raises:
        HarnessError: the authors' prompts are missing.
    """
    file = data_dir / TASK_FILE
    if not file.exists():
        raise HarnessError(
            "The authors' prompt for triggers is not in the data folder",
            where=str(file),
            fix="Run `longmemeval datasets download locomo-plus`, or leave out --protocol official",
        )
    texts = official_texts(file, OPENING, COGNITIVE_TASK)
    return partial(_prompt, texts[OPENING].format("A", "B") + texts[COGNITIVE_TASK], dataset)


def protocol_note(record: Mapping[str, Any], official_metric: bool) -> str:
    """Return the note for tables with runs under the protocol."""
    differs = "; ".join(record.get("deviations", ()))
    return (
        "LoCoMo-Plus's answering protocol, in the authors' words, which tell the model to show its memory. "
        f"Unlike their code: {differs}."
    )


def _prompt(opening: str, dataset: "LocomoPlusDataset", question: Question, recall: Recall) -> tuple[ChatMessage, ...]:
    lines = [*_lines(dataset, question, recall), _line(dataset.asked_by[question.question_id], question.text)]
    return (ChatMessage("user", opening + "\n".join(lines).strip()),)


def _lines(dataset: "LocomoPlusDataset", question: Question, recall: Recall) -> Iterator[str]:
    """Yield the recalled items as lines, messages as in the data and without captions."""
    sessions = {session.session_id: session.turns for session in dataset.haystack(question.haystack_id).sessions}
    for item in recall.items:
        places = [name.rpartition(":") for name in item.message_ids] if item.kind == "message" else []
        turns = [sessions[session_id][int(index)] for session_id, _, index in places]
        yield from [_line(turn.speaker, turn.content) for turn in turns] or [item.text]


def _line(speaker: str, text: str) -> str:
    return f'{speaker} said, "{text.strip()}"'


# Answers for LoCoMo-Plus known to be right or wrong: replies that are linked to the cue, and replies that are not.
#
# The gold is the cue, and a reply is right if it refers to it. There are no replies that refer only to the trigger:
# since the trigger refers to the cue, such a reply may be linked to the cue.

_QUOTES = (
    'That takes me back to something you told me: "{cue}" I still have that in mind.',
    'I remember what you said some time ago: "{cue}" That is what I think of now.',
)
_RETOLD = (
    "You once told me this about yourself: {cue} I have not forgotten it.",
    "I keep in mind what I heard from you back then: {cue}",
)
_LATE = (
    "Thank you for telling me, and do take your time with it. There is no hurry on my side, we can talk for as long as "
    'you like. And one more thing, since it belongs here: not long ago you said to me, "{cue}"'
)
_GENERAL = (
    "Thanks for letting me know. Would you like to say a little more?",
    "I see. What would you like to do next?",
    "All right, I am listening. Go on whenever you are ready.",
)
_FORGETS = (
    "I know of nothing you told me before that would have to do with this.",
    "As far as I can tell this is the first time that you speak with me.",
)
_OTHER_SIDE = {
    "i": "you",
    "i'm": "you're",
    "i've": "you've",
    "i'd": "you'd",
    "i'll": "you'll",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "myself": "yourself",
    "am": "are",
}
_REPLY = re.compile(r"(?:\\n|\s)\s*B:\s")
_WORDS = re.compile(r"[A-Za-z]+(?:['\u2019][a-z]+)?")


def retold(cue: str) -> str:
    """Rephrase a statement for its speaker: `I lost my bike` becomes `You lost your bike`."""

    def other_side(match: re.Match[str]) -> str:
        word = match[0].replace("\u2019", "'")
        other = _OTHER_SIDE.get(word.lower(), match[0])
        return other[:1].upper() + other[1:] if match.start() == 0 else other

    return _WORDS.sub(other_side, re.sub(r"\bI was\b", "you were", cue))


def _cue(gold: Gold) -> str:
    """Return the first words of the cue, without the speaker's name."""
    text = gold.evidence_texts[0].partition("\N{FULLWIDTH COLON}")[2]
    # Some lines also contain the reply, after an escaped line break.
    return _REPLY.split(text)[0].strip()


def _words(gold: Gold) -> set[str]:
    return set(content_words(" ".join(text.partition("\N{FULLWIDTH COLON}")[2] for text in gold.evidence_texts)))


def planted_on(ground: Ground) -> Make:
    """Return the maker of the plants of one data set."""
    words = {name: _words(gold) for name, gold in ground.golds.items()}
    triggers = {q.question_id: set(content_words(q.text)) for q in ground.questions}

    def make(question: Question, gold: Gold, random: Random) -> Iterator[Made]:
        cue = _cue(gold)
        yield Made("linked", random.choice(_QUOTES).format(cue=cue))
        yield Made("retold", random.choice(_RETOLD).format(cue=retold(cue)))
        yield Made("linked-late", _LATE.format(cue=cue))
        own = words[gold.question_id] | triggers[gold.question_id]
        others = [name for name, cue_words in words.items() if not own & (cue_words | triggers[name])]
        if others:
            other = random.choice(others)
            text = random.choice(_QUOTES).format(cue=_cue(ground.golds[other]))
            yield Made("other-cue", text, f"cue of {other}")
        yield Made("general", random.choice(_GENERAL))
        yield Made("forgets", random.choice(_FORGETS))
        yield from non_answers(random)

    return make
