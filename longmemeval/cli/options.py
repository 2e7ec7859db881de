"""Options that several verbs share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from longmemeval.pipeline.runs.selection import Selection

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of downloaded data sets [env: LONGMEMEVAL_DATA_DIR; data].")
]
PreparedDir = Annotated[
    Path | None,
    typer.Option("--prepared-dir", help="Folder of fixtures [env: LONGMEMEVAL_PREPARED_DIR; prepared-data]."),
]
ResultsDir = Annotated[
    Path | None, typer.Option("--results-dir", help="Folder of runs [env: LONGMEMEVAL_RESULTS_DIR; results].")
]
DatasetName = Annotated[
    str, typer.Option("--dataset", "-d", help="A catalogue name (`longmemeval datasets list`) or a file of that shape.")
]
Limit = Annotated[int | None, typer.Option("--limit", help="Only the first N questions.")]
Sample = Annotated[
    int | None,
    typer.Option("--sample", help="Only N questions, drawn by --seed, stratified by type; smaller samples are nested."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of --sample.")]
QuestionIds = Annotated[
    list[str] | None, typer.Option("--question-id", help="Only this question; may be given several times.")
]
ApiBase = Annotated[
    str | None, typer.Option("--api-base", help="An OpenAI-compatible endpoint, e.g. http://localhost:8000/v1.")
]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, help="Model calls under way at one time.")]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        min=0.0,
        help="Most US dollars for this work, earlier starts and failed attempts included: no call is begun that could "
        "exceed them.",
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds for one attempt of a model call.")]
MaxAttempts = Annotated[int, typer.Option("--max-attempts", min=1, help="Attempts per model call, the first included.")]
GiveUpAfter = Annotated[
    float,
    typer.Option(
        "--give-up-after",
        min=0.1,
        help="Seconds an endpoint may give nothing but failures; then what is done is kept and the command ends.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def selection(limit: int | None, sample: int | None, seed: int, question_ids: list[str] | None) -> "Selection":
    """The selection that the options name."""
    from longmemeval.pipeline.runs.selection import Selection

    return Selection(limit, sample, seed, tuple(question_ids or ()))
