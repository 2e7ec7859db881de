"""The way BEAM's authors ask questions: two forms of `src/answer_probing_questions/` in their repository at b2a3ee8.

| form | messages sent |
|---|---|
| long-context | the chat as messages with their roles, then the question as one more message of the user |
| rag | one message with the recalled text and the question |

The first form is for a memory that recalls everything, the second for any other. Neither shows a date. The mistakes
of the authors' code are not repeated here.

The prompts, of BEAM's judges too, are the authors', from the user's copy of their code, or ours. The authors' code has
no licence, so its texts are not shipped. They are looked up among the string literals of three files of a clone, `beam`
in the data folder, and recognised by their hashes; nothing in the files is executed.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.beam.benchmark import MAX_TOKENS
from longmemeval.core.files import sha256_bytes, sha256_text
from longmemeval.core.text_files import UnreadableError, decode_text
from longmemeval.errors import IntegrityError
from longmemeval.llm.protocol import ChatMessage
from longmemeval.records import Question, Recall, RecalledItem

if TYPE_CHECKING:
    from longmemeval.benchmarks.beam.loader import BeamDataset
    from longmemeval.reading.prompts import Compose


OWN_FILE = Path(__file__).with_name("judge_prompts.json")
CLONE = "beam"
"""Name of the clone of the authors' repository in the data folder."""
PROMPTS_FILE, METRICS_FILE = Path("src/prompts.py"), Path("src/evaluation/compute_metrics.py")
ANSWERING_FILE = Path("src/answer_probing_questions/long_term_memory_methods.py")
OFFICIAL = {
    "nugget": "d349c9a8559bed9c14bfe2e624212225b09218ff864258a739229c15f4c8e869",
    "same_system": "0863c78c1b27d36c97bb7bfd2d4d6b88ef69b093e92bb4719e665527722413e2",
    "same_user": "8686f5ce5009350f1d04fccc06fc23a234cfcd956603c5d54bb2161c2d2c6045",
}
"""The sha256 of each text of the judges at b2a3ee8."""
ANSWERING = {
    "long-context": "4283812ce472c57c6a31fcc428bcc6af70fb0b7da998934c4b672999b8bc7bc4",
    "rag": "ed89b98d1024432a46bd297345961cf89d2429746daec37befb50db46e0c914a",
}
"""Hashes of the texts that ask questions: the last message with `{query}`, and a prompt with `<context>` and
`<question>`."""
LATER_NUGGET = "593373c642a288a7b590577d8a8fc92c3f9a2b70e2f64ad6e59a040a6c56b7f5"
"""Hash of the text at the later commit b2da22e, whose prompt no longer has a placeholder for the question."""

_AGAIN = "Run `longmemeval datasets download beam-100k`, which fetches them too"


class Wording(Struct, frozen=True, forbid_unknown_fields=True):
    """The prompts of a judge."""

    nugget: str
    """Prompt with `<rubric_item>` and `<llm_response>`."""
    same_system: str
    """The system message on whether two texts describe the same event."""
    same_user: str
    """The user message for it, with `{first}` and `{second}`."""

    def about_nugget(self, nugget: str, hypothesis: str, question: str | None = None) -> str:
        """Return the prompt about one nugget. Official prompts never get the question: its placeholder stays."""
        prompt = self.nugget if question is None else self.nugget.replace("<question>", question)
        return prompt.replace("<rubric_item>", nugget).replace("<llm_response>", hypothesis)

    def about_pair(self, first: str, second: str) -> str:
        """Return the message about a nugget and a line of the answer."""
        before, _, rest = self.same_user.partition("{first}")
        between, _, after = rest.partition("{second}")
        return f"{before}{first}{between}{second}{after}"


OFFICIAL_SHA256 = sha256_bytes(msgspec.json.encode(OFFICIAL, order="sorted"))
OWN_SHA256 = "9fa000dfffaffcf32f04080d796314671610a2f06739abd86fadb20b8f014f43"
"""Hash of `own_wording`; a constant, so that no file is read when this module is imported."""


@lru_cache(maxsize=1)
def own_wording() -> Wording:
    """Return our prompts."""
    return msgspec.json.decode(OWN_FILE.read_bytes(), type=Wording)


def official_wording(clone: Path) -> Wording | None:
    """Return the authors' prompts in a clone of their repository; None if neither file exists.

    Raises:
        IntegrityError: a text is missing, or differs in a byte.
    """
    if not any((clone / file).is_file() for file in (PROMPTS_FILE, METRICS_FILE)):
        return None
    texts = _texts(clone, (PROMPTS_FILE, METRICS_FILE))
    missing = [name for name, sha256 in OFFICIAL.items() if sha256 not in texts]
    if missing:
        later = " (the prompt is that of the later commit b2da22e)" if LATER_NUGGET in texts else ""
        raise IntegrityError(
            f"The texts of BEAM's judge are not the official ones: {', '.join(missing)}{later}",
            where=str(clone),
            fix=f"{_AGAIN}, or grade in our words with --judge beam-own@MODEL",
        )
    return Wording(**{name: texts[sha256] for name, sha256 in OFFICIAL.items()})


def answering_text(form: str, clone: Path) -> str:
    """Return the authors' text that asks questions, from a clone of their repository.

    Raises:
        IntegrityError: the text is missing, or differs in a byte.
    """
    file = PROMPTS_FILE if form == "rag" else ANSWERING_FILE
    text = _texts(clone, (file,)).get(ANSWERING[form])
    if text is None:
        what = "The prompt for BEAM's questions is not the official one"
        raise IntegrityError(what, where=str(clone / file), fix=_AGAIN)
    return text


@lru_cache(maxsize=8)
def _texts(clone: Path, files: tuple[Path, ...]) -> dict[str, str]:
    """Return every string literal of the files by its sha256."""
    texts = dict[str, str]()
    for path in (clone / file for file in files):
        try:
            tree = ast.parse(decode_text(path.read_bytes()))
        except (OSError, UnreadableError, SyntaxError, ValueError) as error:
            raise IntegrityError(f"The authors' texts cannot be read: {error}", where=str(path), fix=_AGAIN) from error
        texts |= {sha256_text(text): text for text in _literals(tree)}
    return texts


def _literals(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            # Placeholders by number, as in the judge's texts here, and by their names in the authors' files.
            places = iter(("{first}", "{second}"))
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else next(places, "{}") for part in node.values
            )
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                for part in node.values
                if isinstance(part, ast.Constant | ast.FormattedValue)
            )


LONG_CONTEXT, RAG = "long-context", "rag"

_COMMON = (
    f"an answer has at most {MAX_TOKENS:,} tokens unless --max-tokens is given, where theirs has no fixed limit",
    "a failed call is no answer, where theirs grades its error message",
)
DEVIATIONS = {
    LONG_CONTEXT: (
        "each question is asked alone, where their list of messages grows and ends with all earlier questions",
        "what exceeds the model's window is handled by --on-overflow, where theirs keeps the newest messages and at "
        "some lengths none",
        "sessions are in order of their dates, which at 10M is not always that of the file",
        *_COMMON,
    ),
    RAG: (
        "the memory finds what is shown, within its own budget, where theirs takes the 5 best pairs of messages up to "
        "29,000 estimated tokens",
        "every message is shown once and in order of time, where theirs indexes a pair two to six times and shows "
        "the pairs in order of rank",
        "a message is laid out as in their turn chunks, alone, where their default chunks are pairs",
        *_COMMON,
    ),
}
"""Deviations from the authors' code, by form."""


def protocol_record(seed: int, texts: object, whole_history: bool) -> dict[str, Any]:
    """Return the record of the protocol for a manifest's `settings.protocol`; nothing is random, so it has no seed."""
    form = LONG_CONTEXT if whole_history else RAG
    return {
        "name": "official",
        "form": form,
        "text_sha256": ANSWERING[form],
        "deviations": list(DEVIATIONS[form]),
    }


def compose(dataset: "BeamDataset", data_dir: Path, record: Mapping[str, Any]) -> "Compose":
    """Return the composer of the messages of a call.

    Args:
        dataset: the dataset of the questions.
        data_dir: folder with the clone of the authors' repository.
        record: a manifest's `settings.protocol`.

    Raises:
        IntegrityError: the authors' prompts are missing.
    """
    return partial(
        {LONG_CONTEXT: _long_context, RAG: _rag}[record["form"]], answering_text(record["form"], data_dir / CLONE)
    )


def protocol_note(record: Mapping[str, Any], official_metric: bool) -> str:
    """Return the note for tables with runs under the protocol."""
    differs = "; ".join(record.get("deviations", ()))
    return f"BEAM's answering protocol, {record.get('form')}, in the authors' words. Unlike their code: {differs}."


def _long_context(text: str, question: Question, recall: Recall) -> tuple[ChatMessage, ...]:
    messages = (ChatMessage("assistant" if item.speaker == "assistant" else "user", item.text) for item in recall.items)
    return (*messages, ChatMessage("user", text.replace("{query}", question.text)))


def _rag(text: str, question: Question, recall: Recall) -> tuple[ChatMessage, ...]:
    # Filled in one pass, since the recalled text may contain the second placeholder.
    before, _, rest = text.partition("<context>")
    between, _, after = rest.partition("<question>")
    context = "".join(map(_laid_out, recall.items))
    return (ChatMessage("user", f"{before}{context}{between}{question.text}{after}"),)


def _laid_out(item: RecalledItem) -> str:
    """Return an item in the form of the authors' chunks of whole turns; only messages have a role."""
    return f"{item.speaker.upper()}: {item.text} \n\n" if item.kind == "message" else f"{item.text} \n\n"
