"""Options of `retrieval`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from longmemeval.core.arguments import Options
from longmemeval.core.executors.local import ExecutorName, Jobs
from longmemeval.core.options import OUTPUT, WHAT, Flag, Group
from longmemeval.llm.options import MaxCost, ModelOptions, QueryModel
from longmemeval.measures.notation import Granularity, RetrievalProtocol
from longmemeval.pipeline.run.options import Prepared, RunId


class RetrievalOptions(Options, frozen=True):
    """Options of `retrieval`, apart from the data and the memories."""

    protocol: Annotated[RetrievalProtocol, Flag(WHAT, "NAME")] = "standard"
    """standard, or official (the benchmark authors' own).

    `standard` ranks from prepared fixtures.
    """
    granularity: Annotated[Granularity | None, Flag(WHAT, "UNIT")] = None
    """session or turn [default: what the protocol ranks]."""
    measures: Annotated[tuple[str, ...], Flag(OUTPUT, "NAME", name="--measure")] = ()
    """Such as recall_any@5; repeatable [default: the usual ones].

    See `chosen_measures`; official protocols have their own.
    """
    cutoffs: Annotated[tuple[int, ...], Flag(OUTPUT, "N", name="--k")] = ()
    """Cutoff for measures named without one; repeatable."""
    prepared: Prepared = "default"
    """The name of the preparation to read."""
    embedder: Annotated[str | None, Flag(metavar="SPEC")] = None
    """The fixtures' embedder under another name. Under --protocol official, the embedder of semantic-recall [default:
    hashing]."""
    run_id: RunId = None
    """The id of the run, followed by `-<memory>` if there are several memories. A run that exists is continued."""
    log: Annotated[Path | None, Flag(metavar="FILE")] = None
    """Under --protocol official: write the log in the official format."""
    expansion_cache: Annotated[Path | None, Flag(metavar="FILE")] = None
    """Under --protocol official: expansions as the official scripts write them [default: the preparation's]."""
    query_model: QueryModel = None
    """Chat model that analyses the questions, for memories that use one (`decompose=model`)."""
    model_options: Annotated[ModelOptions, Group(("api_base", "give_up_after_s"))] = ModelOptions()
    """Connection options; a remote embedder is looked for at the same endpoint."""
    spending: MaxCost = None
    """The most that calls about questions and of a remote embedder may cost, all starts and memories together;
    None: no limit.
    """
    jobs: Jobs = None
    """Workers; None: one per core if there are enough haystacks, else none. An official protocol with a corpus of
    its own uses one.
    """
    executor: ExecutorName = None
    """The executor of the workers; None: `processes`, if there are to be workers."""
    twice: Annotated[bool, Flag(WHAT)] = False
    """Ask each question twice; report how often the recall changes."""
    tell: Callable[[str], None] | None = None
    """Receives notes before the first question is ranked."""
