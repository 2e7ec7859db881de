"""Sentences on a comparison: each has a code, its figures, and places for the names of runs.

A new sentence is one entry of `TEMPLATES`. Whoever shows a sentence fills in names (`Sentence.text`), no more.
"""

from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, Literal, get_args

from msgspec import Struct

from longmemeval.core.text.figures import bounds, count_of, listed, percent, points, signed, signed_bounds
from longmemeval.results.scores.warnings import WarningCode

SCORE_WARNINGS: frozenset[str] = frozenset(get_args(WarningCode))
"""Codes of the warnings about scores (`results/scores/warnings.py`), each the code of a sentence."""
Kind = Literal["verdict", "caution", "note"]
"""A verdict says what was found, a caution what casts doubt on the table; a note is shown on request."""

TEMPLATES: dict[str, str] = {
    # The verdict on the highest-scoring memory (A) and the baseline (B).
    "one-run": "{A}: {a:percent} {metric}, {i:score_ci}, {n:questions}, judge {judge}{official:official}.",
    "better": "{A} ({a:percent}) is significantly better than {B} ({b:percent}){t:budgets}: {d:signed} points, {i:ci}, "
    "{p:p}{k:holm}.",
    "worse": "{A} ({a:percent}){m:highest} is significantly worse than {B} ({b:percent}){t:budgets}: {d:signed} "
    "points, {i:ci}, {p:p}{k:holm}.",
    "not-significant": "No significant difference between {A} ({a:percent}) and {B} ({b:percent}){t:budgets}: "
    "{d:signed} points, {i:ci}, {p:p}{k:holm}. Differences inside this interval remain possible.",
    "excludes-zero": "Not significant: {A} ({a:percent}) vs. {B} ({b:percent}){t:budgets}, {d:signed} points, {test} "
    "{p:p}{k:holm}, although the uncorrected {i:ci} excludes zero.",
    "equivalent": "{A} ({a:percent}) and {B} ({b:percent}) are equivalent within ±{margin:points}{t:budgets}: "
    "difference {d:signed}, {i:ci}.",
    "identical": "{A} and {B} have the same score on every question ({b:percent}){t:budgets}.",
    "too-few": "{u:units} {u:are} too few{k:comparisons}: no difference can reach p < 0.05. Observed: {A} "
    "{a:percent}, {B} {b:percent}{t:budgets}. Use at least {q:units}.",
    "only-controls": "Only controls were compared: {A} ({a:percent}) vs. {B} ({b:percent}). This comparison says "
    "nothing about a memory system.",
    "pairs-winner": "{A} ({a:percent}) is significantly better than {m:others}{t:budgets} (p < 0.05{k:holm_in}). "
    "Smallest margin: {d:points} over {B}.",
    "pairs-no-winner": "{s} of {k:pairs} {s:are_significant} (p < 0.05{k:holm_in}). {A} has the highest score "
    "({a:percent}) but is not significantly better than every other memory{t:budgets}.",
    # What comes before the verdict.
    "failed-questions": "{A}: {told}",
    "missing-labels": "{A}: {u} of {n:questions} {u:were} not graded and {u:count} as wrong; if all were correct, "
    "the score would be {high:percent}, not {a:percent}.",
    "missing-difference": "On the {n:questions} graded for both, {A} minus {B} is {d:signed} points.",
    "tie": "{names} have the same highest score ({a:percent}).",
    "others-better": "{names} {names:are} significantly better than {B}, with a lower score than {A}.",
    "power": "With {n:questions}, this comparison has 80% power to detect {x:points}{k:after_correction}.",
    "whole-history": "For {x:percent} of the questions, {A} returned the whole history.",
    "prompt-tokens": "{A} uses {share:share} {B}'s prompt tokens per answer.",
    "tokens-prepared": "Preparing {A} took {y:token_count} per question; {from_questions:break_even}.",
    "approximate": "p is approximate, since {A} and {B} were repeated unequally often. Repeat the baseline as often: "
    "`longmemeval run --repeat {r}`.",
    "judge-correction": "After correction for judge errors, this difference is no longer significant: {d:signed} "
    "points, {i:ci}.",
    "repeats": "{A}: mean {a:percent} over {r} repeats (SD {sd:spread} points, range {low:percent} to "
    "{high:percent}). {c} of {n:labels} changed between repeats.",
    "no-memory-helps": "No memory is significantly better than the trivial control {C} ({c:percent}{m:holm_in}). "
    "These scores do not show that any memory helps.",
    "memories-not-better": "Not significantly better than the trivial control {C} ({c:percent}{m:holm_in}): {names}.",
    "all-better": "{m:Every} is significantly better than the trivial control {C} ({c:percent}{m:holm_in}).",
    "control-out-of-reach": "No memory can be significantly better than the trivial control {C} "
    "({c:percent}{m:holm_in}): it leaves only {room:units} to improve on; at least {q} are needed.",
    # What audits of the gold labels say.
    "audit": "Audit {audit}: {d:,} of {n:questions} {d:have} a disputed gold answer ({kinds}). A perfect memory graded "
    "by these labels can get {c:percent}.{about} This is an opinion about the labels.",
    "above-ceiling": "{names}: above the ceiling of {c:percent} by audit {audit}. Some answers are graded as correct "
    "although their gold answer is disputed.{about}",
    "above-ceiling-types": "{names}: above the ceiling by audit {audit} on questions of these types: {types}.",
    "audit-changes": "Without the {q:questions} of the kind “{kind}” (audit {audit}), the difference between {A} and "
    "{B} is {now:significant}.",
    "audits-agree": "Of {either:disputed} by audit {a} or {b}, {both:,} {both:are} disputed by both{kappa:kappa}.",
    # Warnings about scores; no names: about all rows.
    **dict.fromkeys(SCORE_WARNINGS, "{names:about}{text}"),
    # How the figures were made.
    "corrected": "{A} minus {B}, corrected for judge errors: {d:signed} points, {i:ci}; {survives:survives}.",
    "not-corrected": "{A} minus {B} cannot be corrected for judge errors: {reason}.",
    "fixtures-unknown": "The fixtures of {names} are missing or were made from other data since: whether evidence "
    "was stored is unknown, so none is reported as not stored.",
    "common-questions": "Only the {n:questions} that all runs share are compared; excluded: {left_out}. Tokens, cost "
    "and latency are still those of the whole runs.",
    "answers-elsewhere": "{names}: imported answers; how they were produced is unknown.",
    "not-completed": "{A} is incomplete{status:unless_incomplete}; unanswered questions count as wrong.",
    "reads-gold": "{A} is given the gold evidence: an upper bound, not a memory system.",
    "other-judge-model": "{names}: according to the server, not all labels come from the official judge's model.",
    "setting-differs": "{text}",
}


class Sentence(Struct, frozen=True):
    """One sentence: a code, its figures, and the runs it names."""

    code: str
    values: Mapping[str, Any] = {}
    """Figures by place in the template: fractions, counts, words; nothing is rounded."""
    runs: Mapping[str, tuple[str, ...]] = {}
    """Ids of the runs to be named, by place in the template."""
    kind: Kind = "note"

    def text(self, names: Mapping[str, str]) -> str:
        """Return the sentence with the runs under these names; a run without a name goes by its id."""
        places = {place: _Names(names.get(run_id, run_id) for run_id in ids) for place, ids in self.runs.items()}
        return _FORMATTER.format(TEMPLATES[self.code], **self.values, **places)


class _Names(tuple[str, ...]):
    """Names of runs, listed when shown."""

    __slots__ = ()

    def __str__(self) -> str:
        if len(self) == 2:
            return f"{self[0]} and {self[1]}"
        return listed(self, 4, "; " if any("," in name for name in self) else ", ")


class _SentenceFormatter(Formatter):
    def format_field(self, value: object, format_spec: str) -> str:
        """Return a value in the form that the template names."""
        return FORMS[format_spec](value) if format_spec else str(value)


_FORMATTER = _SentenceFormatter()


def p_value(p: float) -> str:
    """Return `p = 0.032` or `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _ci(interval: tuple[float, float]) -> str:
    return f"95% CI {signed_bounds(interval)}"


def _score_ci(interval: tuple[float, float]) -> str:
    return f"95% CI {bounds(interval)}"


def _holm(comparisons: int) -> str:
    return f" (Holm, {comparisons:,} comparisons)" if comparisons > 1 else ""


def budget_words(budgets: Sequence[int | None]) -> str:
    """Return the token budgets of rows, such as `budget 2,000 tokens` or `budget 500, 1,000 or 4,000 tokens`."""
    named = [f"{budget:,}" for budget in sorted({budget for budget in budgets if budget})]
    several = [", ".join(named[:-1])] if len(named) > 1 else []
    return f"budget {' or '.join([*several, named[-1]])} tokens" if named else ""


def _budgets(budgets: tuple[int | None, int | None]) -> str:
    first, second = budgets
    if first == second:
        return f", {budget_words(budgets)} each" if first else ""
    if first is None or second is None:
        return f", budget {first or second:,} tokens vs. none" if first else f", budget none vs. {second:,} tokens"
    return f", budget {first:,} vs. {second:,} tokens"


def _units(units: tuple[int, str]) -> str:
    return count_of(*units)


def _share(share: float) -> str:
    if share > 1:
        return f"{share:.1f} times"
    return f"{share * 100:.0f}% of" if share >= 0.005 else "less than 1% of"


def _break_even(questions: int | str | None) -> str:
    if questions is None:
        return "break-even is not known"
    if questions == "never":
        return "it never becomes cheaper than the full history"
    return f"it becomes cheaper than the full history from {count_of(int(questions), 'question')} per history"


def _many(one: str, several: str) -> Callable[[Any], str]:
    """Return a form that chooses the word for one and for several."""

    def form(value: object) -> str:
        number = value[0] if isinstance(value, tuple) and value and isinstance(value[0], int) else value
        number = len(number) if isinstance(number, tuple) else number
        return one if number == 1 else several

    return form


FORMS: dict[str, Callable[[Any], str]] = {
    "percent": percent,
    "signed": signed,
    "points": points,
    "spread": lambda value: f"{value * 100:.1f}",
    "ci": _ci,
    "score_ci": _score_ci,
    "p": p_value,
    "holm": _holm,
    "holm_in": lambda comparisons: f", Holm, {comparisons:,} comparisons" if comparisons > 1 else "",
    "comparisons": lambda comparisons: f" for {comparisons:,} comparisons" if comparisons > 1 else "",
    "after_correction": lambda k: f", after correction for {k:,} comparisons" if k > 1 else "",
    "pairs": lambda pairs: count_of(pairs, "pairwise difference"),
    "others": lambda others: f"each of the {others:,} other memories" if others > 1 else "the other memory",
    "Every": lambda memories: "Every memory" if memories > 1 else "The memory",
    "highest": lambda memories: ", the highest-scoring memory," if memories > 1 else "",
    "questions": lambda number: count_of(number, "question"),
    "labels": lambda number: count_of(number, "label"),
    ",": lambda number: f"{number:,}",
    "kappa": lambda kappa: "" if kappa is None else f" (Cohen's kappa {kappa:.2f})",
    "disputed": lambda number: count_of(number, "question disputed", "questions disputed"),
    "significant": lambda significant: "significant" if significant else "not significant",
    "have": _many("has", "have"),
    "token_count": lambda number: f"{number:,.0f} tokens",
    "units": _units,
    "budgets": _budgets,
    "share": _share,
    "break_even": _break_even,
    "unless_incomplete": lambda status: "" if status == "incomplete" else f" ({status})",
    "official": lambda official: "" if official else " (not official)",
    "survives": lambda survives: "still significant" if survives else "no longer significant",
    "about": lambda names: f"{names}: " if names else "",
    "are": _many("is", "are"),
    "are_significant": _many("is significant", "are significant"),
    "were": _many("was", "were"),
    "count": _many("counts", "count"),
}
