"""Show the result of `judge check`, as a table and the sentences below it."""

from collections.abc import Iterator, Mapping

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, count_of, percent
from longmemeval.judges.definition import compares_words
from longmemeval.judges.plants.judged import JUDGED_KINDS
from longmemeval.judges.plants.planting import NO_ANSWERS, Kind
from longmemeval.judges.template_set import judge_name
from longmemeval.measures.plant_rates import JudgeRates, Rate
from longmemeval.results.graded.judge_checks import JudgeCheck


def check_table(check: JudgeCheck) -> Table:
    """Return a row for each kind of planted answer, right ones first, and a row for each group as a whole."""
    rates, labels = check.rates, check.judge.metric == "accuracy"
    planting = BENCHMARK_SPECS.get(check.benchmark).planting
    rows = []
    for name, what, whole, kinds in _groups(rates, planting.kinds if planting else {}):
        rows.append((name, what, whole))
        rows += [(f"  {name}", kind.what, rates.by_kind[name]) for name, kind in kinds if name in rates.by_kind]
    credit = "passed" if labels else f"mean\n{check.judge.metric}"
    title = f"{check.dataset['name']}, {count_of(check.questions, 'question')}, judge {judge_name(check.judge)}"
    columns: list[Column[tuple[str, str, Rate]]] = [
        Column("test answers", lambda row: row[0], "text"),
        Column("", lambda row: row[1], "prose"),
        Column(credit, lambda row: percent(row[2].credit)),
        Column("95% CI", lambda row: UNKNOWN if row[2].credit is None else bounds(row[2].interval)),
        Column("n", lambda row: row[2].n),
        Column("no\nlabel", lambda row: row[2].unlabelled, drop=1),
    ]
    return tabulate(title, columns, rows)


def _groups(rates: JudgeRates, planted: Mapping[str, Kind]) -> Iterator[tuple[str, str, Rate, list[tuple[str, Kind]]]]:
    """Yield each group of plants: its name, what a judge should do with it, its rate and its kinds."""

    def of(kinds: Mapping[str, Kind], *, right: bool) -> list[tuple[str, Kind]]:
        return [(name, kind) for name, kind in kinds.items() if kind.right == right and name not in NO_ANSWERS]

    made, words, why = (rates.right, rates.wrong), "", ""
    if rates.planted:
        yield "correct, human", "human-labelled, held out; should pass", rates.right, of(JUDGED_KINDS, right=True)
        yield "incorrect, human", "human-labelled, held out; should fail", rates.wrong, of(JUDGED_KINDS, right=False)
        made, words, why = rates.planted, "generated ", "; too easy to count"
    if rates.at_hand:
        known = "the rules were written with these, so they do not count"
        yield "correct, development", f"should pass; {known}", rates.at_hand[0], []
        yield "incorrect, development", f"should fail; {known}", rates.at_hand[1], []
    yield f"{words}correct answers", f"should pass{why}", made[0], of(planted, right=True)
    yield f"{words}incorrect answers", f"should fail{why}", made[1], of(planted, right=False)
    yield "no answers", "should fail", rates.none, [pair for pair in planted.items() if pair[0] in NO_ANSWERS]


def check_notes(check: JudgeCheck, *, unlike: bool) -> Iterator[str]:
    """Yield what follows for the judge's scores.

    Args:
        unlike: True if right plants are shown to fare better than wrong ones.
    """
    right, wrong = check.rates.right, check.rates.wrong
    if right.credit is None or wrong.credit is None:
        yield "Test answers of both kinds need labels before scores can be corrected."
        return
    if check.judge.metric == "accuracy":
        yield (
            f"False negatives {percent(1 - right.credit)} (correct answers failed), false positives "
            f"{percent(wrong.credit)} (incorrect answers passed)."
        )
    half = right.credit * 0.5 + wrong.credit * 0.5
    effect = f"This judge gives {percent(half)} to a system that is right on half of the questions"
    if not unlike:
        yield (
            f"{effect}. It does not significantly separate correct from incorrect answers, so its scores cannot be "
            "corrected."
        )
    else:
        yield f"{effect}. True differences appear {(right.credit - wrong.credit) * 100:.0f}% as large with this judge."
    if check.rates.planted:
        yield (
            f"The rates use the {count_of(right.n + wrong.n, 'human-labelled answer')}. Generated test answers are "
            "easier for rules and count in no rate."
        )
    elif compares_words(check.judge):
        yield "These rates correct no score: generated test answers are easier for rules than models' answers."
    if one_sided := [name for name, (right, wrong) in check.rates.by_type.items() if not (_any(right) and _any(wrong))]:
        yield (
            f"{', '.join(one_sided)}: test answers of one kind only. They are excluded from the overall error rates; "
            "the rates of the other types correct their scores."
        )
    if not check.rates.planted:
        yield "The rates weight every kind of test answer as often as the questions allow."
    yield "Error rates differ by kind of error: see the rows."


def _any(rate: Rate) -> bool:
    return rate.n + rate.unlabelled > 0
