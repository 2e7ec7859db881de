"""`longmemeval claims`: list, show, compare and try published figures."""

from typing import TYPE_CHECKING, Annotated

import typer

from longmemeval.cli import options as shared
from longmemeval.cli.next_step import command_line
from longmemeval.cli.options import Shown, add_verb
from longmemeval.cli.output import out, print_answer, print_json, print_table, warn
from longmemeval.cli.panels import Verbs
from longmemeval.core.defaults import CONCURRENCY
from longmemeval.core.options import MODEL, OUTPUT, WHAT, Flag, Group
from longmemeval.core.text.figures import count_of
from longmemeval.llm.options import Concurrency, MaxCost, ModelOptions

if TYPE_CHECKING:
    from longmemeval.pipeline.claims.catalogue import Claim
    from longmemeval.pipeline.claims.state import State


app = typer.Typer(
    cls=Verbs,
    help="Reproduce published scores.",
    epilog="longmemeval claims list --benchmark personamem",
)

Name = Annotated[str, Flag(metavar="ID", help="Claim id, a unique part of it, or FILE.yaml/ROW.", argument=True)]


def list_claims(
    benchmark: Annotated[str | None, Flag(WHAT, "NAME", "Benchmark of the claims.")] = None,
    system: Annotated[str | None, Flag(WHAT, "TEXT", "Text in the name of the system or reader.")] = None,
    every: Annotated[bool, Flag(OUTPUT, help="Show claims that cannot be tried too.", name="--all")] = False,
    data_dir: shared.DataDir = None,
    as_json: shared.Json = False,
) -> None:
    """List published figures that can be tried.

    Each with what it still needs here: data, a key, the product.
    """
    from longmemeval.pipeline.claims.state import claims_on
    from longmemeval.report.tables.claims import claims_document, claims_table
    from longmemeval.settings import folders

    found = claims_on(benchmark, system or "", folders(data_dir).data_dir)
    if as_json:
        print_json([claims_document(claim, state) for claim, state in found])
        return
    shown = [row for row in found if every or not row[1].cannot]
    shown.sort(key=lambda row: (bool(row[1].cannot), len(row[1].needs)))
    out.print(_counts(found))
    if shown:
        print_table(claims_table(shown))
    if len(shown) < len(found):
        out.print(f"{len(found) - len(shown)} claims cannot be tried here; use --all to list them.")
    if shown:
        out.next((f"longmemeval claims show {shown[0][0].id}", "what it says and what trying it takes"))


def show_claim(name: Name, data_dir: shared.DataDir = None, as_json: shared.Json = False) -> None:
    """Show a claim as settings of this harness.

    Shows what the source says and leaves open, what is assumed, and what trying it costs.
    """
    from longmemeval.pipeline.claims.catalogue import claim_named
    from longmemeval.pipeline.claims.state import state_of
    from longmemeval.report.tables.claims import claim_lines, claims_document
    from longmemeval.settings import folders

    claim = claim_named(name)
    state = state_of(claim, folders(data_dir).data_dir)
    if as_json:
        print_json(claims_document(claim, state))
        return
    print_answer(claim_lines(claim, state))
    if not state.cannot and not state.needs:
        out.next((f"longmemeval claims try {claim.id}", "run it with the same settings"))


def show_field(
    benchmark: Annotated[str | None, Flag(WHAT, "NAME", "Benchmark of the figures.")] = None,
    system: Annotated[str | None, Flag(WHAT, "TEXT", "Text in the name of the product, system or reader.")] = None,
    as_markdown: Annotated[
        bool, Flag(OUTPUT, help="Print Markdown, with the ids of claims.", name="--markdown")
    ] = False,
    as_json: shared.Json = False,
) -> None:
    """Compare figures of makers with those that others measured.

    Each with its interval, reader, judge, context tokens and warnings.
    """
    from longmemeval.pipeline.claims.catalogue import all_claims
    from longmemeval.pipeline.claims.field import field, field_summary
    from longmemeval.pipeline.claims.state import chosen_claims
    from longmemeval.report.tables.claims import FIELD_NOTES, field_document, field_markdown, field_tables

    if as_json and as_markdown:
        raise typer.BadParameter("--markdown takes no --json")
    chosen = {claim.id for claim in chosen_claims(benchmark, system or "")}
    products = [one for one in field(all_claims()) if any(figure.claim.id in chosen for figure in one.figures)]
    if as_json:
        print_json([field_document(product) for product in products])
    elif as_markdown:
        out.print(field_markdown(products))
    else:
        print_answer([field_summary(products), *field_tables(products), *FIELD_NOTES])
        if products:
            shown = products[0].figures[0].claim.id
            out.next((f"longmemeval claims show {shown}", "what it says and what trying it takes"))


def try_claim(
    name: Name,
    places: shared.Places,
    rates: shared.Rates,
    shown: Shown,
    model_options: Annotated[ModelOptions, Group(("api_base", "timeout_s", "max_attempts", "give_up_after_s"))],
    sample: Annotated[
        int | None, Flag(WHAT, "N", "Number of questions to sample, stratified by type.", minimum=1)
    ] = None,
    seed: Annotated[int, Flag(metavar="N", help="Seed of --sample.")] = 0,
    model: Annotated[str | None, Flag(MODEL, "MODEL", "Other answering model (recorded as a deviation).")] = None,
    judge: Annotated[str | None, Flag(MODEL, "JUDGE", "Other judge (recorded as a deviation).")] = None,
    dataset: Annotated[str | None, shared.dataset_option("Path of the dataset, if not in the data folder.")] = None,
    concurrency: Concurrency = CONCURRENCY,
    max_cost: MaxCost = None,
    dry_run: shared.DryRun = False,
    as_json: shared.Json = False,
) -> None:
    """Make the run that a claim describes, grade it, and report the result.

    Shows the claimed figure next to the measured one, the interval of the difference, and every deviation.
    """
    from longmemeval.api.claims import Changes, ClaimTrial
    from longmemeval.cli.estimates import show_run
    from longmemeval.report.tables.claims import attempt_lines

    shown.apply()
    folders = places.folders()
    changes = Changes(sample, seed, model, judge, dataset)
    trial = ClaimTrial(name, changes, model_options=rates.on(model_options, folders), folders=folders)
    if dry_run:
        estimate = trial.estimate()
        if as_json:
            print_json(estimate)
        else:
            show_run(estimate)
        return
    attempt = trial.attempt(
        max_cost=max_cost.dollars if max_cost else None,
        concurrency=concurrency,
        tell=warn,
    )
    if as_json:
        print_json(attempt)
    else:
        print_answer(attempt_lines(attempt))
        out.next((command_line("verify", attempt.run, places=places), "check all hashes and recompute all scores"))


def _counts(found: "list[tuple[Claim, State]]") -> str:
    """Return a sentence with the number of claims, of sources, and of claims that can be tried."""
    sources = {(claim.source.title, claim.source.table) for claim, _ in found}
    able = sum(not state.cannot for _, state in found)
    ready = sum(state.label == "ready" for _, state in found)
    return (
        f"{count_of(len(found), 'published figure')} from {count_of(len(sources), 'table')}; {able:,} can be tried, "
        f"{ready:,} here and now."
    )


add_verb(app, "list", list_claims, example="longmemeval claims list --benchmark personamem", all_options=False)
add_verb(app, "show", show_claim, example="longmemeval claims show longest-option", all_options=False)
add_verb(app, "table", show_field, example="longmemeval claims table --system zep", all_options=False)
add_verb(app, "try", try_claim, example="longmemeval claims try longest-option --sample 100")
