"""`longmemeval verify`."""

from pathlib import Path
from typing import Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.output import err, out, print_documents, printable, warn, warn_omitted
from longmemeval.core.options import WHAT, Flag
from longmemeval.core.text.figures import listed
from longmemeval.results.options import MovedDataset

EXAMPLE = "longmemeval verify demo-hybrid"


def verify(
    places: shared.Places,
    subjects: Annotated[
        list[str] | None,
        Flag(metavar="RUN|DATA[/NAME]|FOLDER", help="Runs, patterns, preparations or folders.", argument=True),
    ] = None,
    sweep: shared.Sweep = None,
    memories: shared.PartsOf = None,
    dataset: MovedDataset = None,
    public_key: Annotated[
        Path | None,
        Flag(WHAT, "FILE", "Public key of the signer to check."),
    ] = None,
    seed: Annotated[
        int | None,
        Flag(WHAT, "N", "Seed of the sample of fixtures to check.", name="--seed"),
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Check all hashes and recompute all scores.

    Fixtures are made again from the data and compared: of a preparation every part, of a large run all messages and a
    sample of the other parts. No model and no server is called. What was not checked, and what no file can prove, is
    listed last. The exit code is 3 if a check fails.
    """
    from longmemeval.pipeline.verify.verify import verify_all

    if not subjects and sweep is None:
        raise typer.BadParameter("name a RUN, a pattern such as 'demo-*', a preparation, or --sweep NAME")
    outcomes = verify_all(
        subjects or (),
        sweep=sweep,
        dataset=dataset,
        memories=memories or (),
        public_key=public_key,
        seed=seed,
        folders=places.folders(),
        tell=warn_omitted,
    )
    if as_json:
        print_documents(outcomes, "subjects")
    shown = set[str]()
    for outcome in outcomes:
        if not outcome.problems and not as_json:
            signed = f", signed by the owner of {printable(public_key.name)}" if public_key else ""
            out.print(f"{printable(outcome.subject)}: all {outcome.checked} checks passed{signed}")
        for note in outcome.notes if not as_json else ():
            if note not in shown:
                warn(note)
                shown.add(note)
        for problem in outcome.problems:
            err.print(f"{printable(problem)}")
        if outcome.problems:
            err.print(f"{printable(outcome.subject)}: {len(outcome.problems)} of {outcome.checked} checks failed")
    if not as_json:
        gaps = dict.fromkeys(gap for outcome in outcomes for gap in outcome.not_checked)
        for gap in gaps:
            names = [outcome.subject for outcome in outcomes if gap in outcome.not_checked]
            out.print(printable(f"Not checked ({listed(names, 2)}): {gap}"))
        unprovable = dict.fromkeys(what for outcome in outcomes for what in outcome.cannot_prove)
        out.print(f"No file can prove: {printable('; '.join(unprovable))}.")
    if any(result.problems for result in outcomes):
        raise typer.Exit(3)
