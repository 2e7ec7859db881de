"""`longmemeval judge`: what a judge does with answers whose truth is known."""

from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli.estimates import show_stages
from longmemeval.cli.options import shared
from longmemeval.cli.options.groups import add_verb
from longmemeval.cli.options.panels import Verbs
from longmemeval.cli.output import err, out, print_json, print_lines, print_table, printable
from longmemeval.core.options import LIMITS, Flag
from longmemeval.core.text.figures import count_of
from longmemeval.pipeline.judge_check.options import CheckOptions
from longmemeval.results.selection import Selection

if TYPE_CHECKING:
    from longmemeval.pipeline.estimate.stages import StageEstimate
    from longmemeval.pipeline.judge_check.check import JudgeChecking

app = typer.Typer(cls=Verbs, help="Check judges on answers whose truth is known.")


def check(
    dataset: shared.DatasetName,
    selection: Selection,
    options: CheckOptions,
    rates: shared.Rates,
    places: shared.Places,
    judge: Annotated[
        str | None,
        Flag(metavar="JUDGE", help="As `evaluate --judge` takes it [default: the benchmark's own].", argument=True),
    ] = None,
    dry_run: Annotated[bool, Flag(LIMITS, help="Say what it would cost; call nothing.")] = False,
    as_json: shared.Json = False,
) -> None:
    """Have a judge grade planted answers, right and wrong ones, and keep how often it errs.

    Plants are made by rules, the same for one --seed, and kept in a file that can be read. Where a judge was checked,
    tables show beside its scores what these are when corrected for its errors (docs/grading.md).
    """
    from msgspec import structs

    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.pipeline.estimate.stages import total_of
    from longmemeval.pipeline.judge_check.check import JudgeChecking
    from longmemeval.report.tables.judge_check import check_notes, check_table

    folders = places.folders()
    options = structs.replace(options, seed=selection.seed, model_options=rates.on(options.model_options, folders))
    data = load_dataset(dataset, folders.data_dir)
    checking = JudgeChecking(data, judge, selection=selection, options=options, folders=folders)
    estimate = checking.estimate()
    plants = f"{count_of(len(checking.plants), 'plant')}, {len(checking.left()):,} to be judged"
    if dry_run:
        if as_json:
            print_json({"estimate": _document(checking, estimate)})
        elif estimate.work.calls:
            out.print(f"{plants}.")
            show_stages([estimate])
        else:
            out.print(f"{plants}; no model is called.")
        return
    if estimate.work.calls:
        err.print(f"{plants}: {total_of([estimate]).phrase()}.")
    outcome = checking.check()
    if as_json:
        print_json({"check": outcome.check, "folder": str(outcome.folder), "usage": outcome.usage})
        return
    print_table(check_table(outcome.check))
    print_lines(check_notes(outcome.check, unlike=outcome.rates is not None and outcome.rates.unlike))
    out.print(f"Judged now: {outcome.newly_judged:,}; plants and labels: {printable(str(outcome.folder))}/")


def _document(checking: "JudgeChecking", stage: "StageEstimate") -> dict[str, object]:
    return {
        "plants": len(checking.plants),
        "to_judge": len(checking.left()),
        "calls": stage.work.calls,
        "prompt_tokens": stage.work.prompt_tokens,
        "completion_tokens": stage.work.completion_tokens,
        "usd": stage.work.dollars,
    }


add_verb(app, "check", check, example="longmemeval judge check offline/lexical --dataset sample")
