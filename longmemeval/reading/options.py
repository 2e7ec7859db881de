"""Options of reading, from a recall to a prompt: of the command line, sweeps, claims and Python, and in `run.json`.

A new option is a field here, with its effect in the reader: everything else reads the fields.
"""

from pathlib import Path
from typing import Annotated, Literal, get_args

from longmemeval.core.arguments import Options
from longmemeval.core.options import LIMITS, MODEL, TOP, Flag, Recorded

ReadingMethod = Literal["direct", "con", "con-separate", "short", "memories", "evidence", "facts-first", "files"]
READING_METHODS: tuple[ReadingMethod, ...] = get_args(ReadingMethod)
HistoryFormat = Literal["nl", "json", "official-nl", "official-json"]
HISTORY_FORMATS: tuple[HistoryFormat, ...] = get_args(HistoryFormat)
OverflowPolicy = Literal["error", "drop-oldest", "drop-newest"]


class ReadingOptions(Options, frozen=True):
    """Options for turning a recall into a prompt."""

    method: Annotated[
        ReadingMethod | None, Flag(MODEL, "METHOD", name="--reading"), Recorded(words="reading method")
    ] = None
    """direct, con(-separate), facts-first, evidence and others."""
    history_format: Annotated[HistoryFormat, Flag(metavar="FORMAT"), Recorded(always=True)] = "nl"
    """History format: nl, json, official-nl or official-json."""
    template: Annotated[Path | None, Flag(metavar="FILE"), Recorded(None)] = None
    """Prompt file with {history}, {question_date} and {question}.

    A .yaml or .json file holds the texts of an official protocol (docs/grading.md).
    """
    note_template: Annotated[Path | None, Flag(metavar="FILE"), Recorded(None)] = None
    """File with the first prompt of con-separate or facts-first."""
    max_tokens: Annotated[int | None, Flag(LIMITS, "N", minimum=1), Recorded("model", always=True)] = None
    """Maximum tokens of an answer [default: 500; con 800]."""
    steps: Annotated[int | None, Flag(metavar="N", minimum=1), Recorded(words="number of steps")] = None
    """Maximum rounds of tool calls, --reading files [default: 12]."""
    prompt_budget: Annotated[int | None, Flag(metavar="TOKENS", minimum=1), Recorded(words="budget of the prompt")] = (
        None
    )
    """Maximum prompt tokens a question, --reading files [default: no limit]."""
    on_overflow: Annotated[
        OverflowPolicy,
        Flag(metavar="POLICY"),
        Recorded(always=True, words="what is done with too long a context"),
    ] = "error"
    """Overlong prompts: error, drop-oldest or drop-newest.

    error: the question fails. Dropped messages are recorded.
    """
    context_window: Annotated[int | None, Flag(metavar="TOKENS", minimum=1), Recorded(always=True)] = None
    """Context window [default: its server's, else LiteLLM's table]."""
    abstain_below: Annotated[float | None, Flag(metavar="SCORE"), Recorded(TOP, words="threshold of abstaining")] = None
    """Recall score below which the answer is an abstention.

    No model is called then.
    """
