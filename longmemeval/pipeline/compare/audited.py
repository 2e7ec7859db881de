"""Compare runs with and without the questions whose gold labels an audit disputes.

An audit is an opinion about the data: its figures never replace a score, and each names who made it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from longmemeval.core.text.figures import listed
from longmemeval.errors import HarnessError
from longmemeval.judges.audit import NOTES, Audit, Ceiling, audit_of, audited_mean, ceiling, named_audits
from longmemeval.pipeline.compare.comparison import (
    AuditedRow,
    ComparedAudit,
    ComparedRun,
    Family,
    PairResult,
    families_of,
)
from longmemeval.pipeline.compare.repeats import Pool
from longmemeval.pipeline.compare.sentences import Kind, Sentence
from longmemeval.results.run_questions import RunQuestions
from longmemeval.settings import Folders
from longmemeval.statistics.paired import agreement

ALL_DISPUTED = "any disputed gold answer"
"""Stands for all kinds that dispute the gold answer, where there are several."""
_ROUNDING = 1e-9


def audits_of(names: Sequence[str] | None, asked: RunQuestions, folders: Folders) -> list[Audit]:
    """Return audits of the data that runs answered.

    Args:
        names: names in the benchmark's catalogue, or paths of files; None: all that are shipped, as far as they
            dispute a question that was asked.

    Raises:
        HarnessError: as `audit_of`, or a named audit disputes no question of the data.
    """
    benchmark, catalogue = asked.benchmark, named_audits(asked.benchmark.audits)
    shipped = [name for name, audit in catalogue.items() if not audit.download]
    found = [
        audit_of(name, asked.dataset, benchmark.audits, benchmark.audit_id, folders.data_dir)
        for name in dict.fromkeys(shipped if names is None else names)
    ]
    if names is None:
        return [audit for audit in found if any(ids & asked.questions.keys() for ids in audit.by_kind.values())]
    for audit in found:
        if audit.elsewhere and not audit.by_error_type:
            raise HarnessError(
                f"The audit '{audit.name}' disputes no question of '{asked.dataset.name}'",
                where=f"none of its {audit.elsewhere} questions is there with the same text",
                fix="Leave out --audit, or name an audit of these data",
            )
    return found


def compared_audit(
    audit: Audit,
    pools: Sequence[Pool],
    rows: Sequence[ComparedRun],
    credits: Mapping[str, Mapping[str, float | None]],
    family: Family | None,
) -> ComparedAudit:
    """Return the scores and the differences from the baseline without each kind of disputed label.

    Args:
        pools: the repeats of each of the rows, the baseline first.
        credits: mean credit by question of each row, by its id.
        family: the tests that p is adjusted for, anew without each kind; None: only the ceiling, no rows.
    """
    asked = pools[0][0].asked
    kinds = {kind: here for kind, ids in audit.by_kind.items() if (here := ids & asked.questions.keys())}
    wrong = audit.score_corrupting & asked.questions.keys()
    counts = {kind: len(ids) for kind, ids in kinds.items()}
    if sum(kind not in NOTES for kind in kinds) > 1:
        kinds[ALL_DISPUTED] = wrong
    return ComparedAudit(
        audit=audit.name,
        about=audit.about,
        sha256=audit.sha256,
        kinds=counts,
        disputed=tuple(question_id for question_id in asked.questions if question_id in wrong),
        ceiling=(bounds := ceiling(asked.golds(), wrong)),
        above=_above(bounds, rows),
        rows=tuple(row for kind, ids in kinds.items() if family for row in _without(kind, ids, pools, credits, family)),
    )


def _above(bounds: Ceiling, rows: Sequence[ComparedRun]) -> dict[str, tuple[str, ...]]:
    """Return the ids of rows above the ceiling by question type; overall under the empty name."""
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        scores = {"": row.summary.metrics.overall, **row.summary.metrics.by_type}
        for name, score in scores.items() if not row.summary.reads_gold else ():
            bound = bounds.by_type.get(name, 1.0) if name else bounds.overall
            if bound is not None and score.accuracy > bound + _ROUNDING:
                found[name] = (*found.get(name, ()), row.run_id)
    return found


def _without(
    kind: str,
    left_out: frozenset[str],
    pools: Sequence[Pool],
    credits: Mapping[str, Mapping[str, float | None]],
    family: Family,
) -> Iterator[AuditedRow]:
    haystacks = {name: haystack for name, haystack in pools[0][0].haystacks.items() if name not in left_out}
    labels = pools[0][0].metrics.judge.metric == "accuracy"
    versus: Mapping[str, PairResult] = {}
    if haystacks:
        per_run = [[{name: run.credits[name] for name in haystacks} for run in pool] for pool in pools]
        versus = families_of([*credits], per_run, haystacks, labels=labels).of_baseline(family)
    for run_id, by_question in credits.items():
        mean = audited_mean({name: value or 0.0 for name, value in by_question.items()}, left_out)
        yield AuditedRow(kind, len(left_out), run_id, mean, versus.get(run_id))


def audit_sentences(
    audits: Sequence[ComparedAudit],
    rows: Sequence[ComparedRun],
    results: Mapping[str, PairResult],
    questions: Sequence[str],
    *,
    kind: Kind,
) -> Iterator[Sentence]:
    """Yield the ceiling of each audit, what is above it, and which differences change their verdict.

    Args:
        results: each other row minus the baseline on all questions.
        questions: ids of the compared questions.
        kind: a caution if somebody named the audits; a score above a ceiling always is one.
    """
    for audit in audits:
        about = f" {audit.about}" if audit.about else ""
        if audit.rows:
            kinds = [f"{kind}: {n:,}{', not counted' if kind in NOTES else ''}" for kind, n in audit.kinds.items()]
            values = {"audit": audit.audit, "n": rows[0].summary.metrics.overall.n, "d": len(audit.disputed)}
            values |= {"kinds": "; ".join(kinds) or "none", "c": audit.ceiling.overall or 0.0, "about": about}
            yield Sentence("audit", values, {}, kind)
        if above := audit.above.get("", ()):
            values = {"audit": audit.audit, "c": audit.ceiling.overall, "about": "" if audit.rows else about}
            yield Sentence("above-ceiling", values, {"names": above}, "caution")
        types = {name: ids for name, ids in audit.above.items() if name and audit.rows and {*ids} - {*above}}
        if types:
            ids = tuple(
                dict.fromkeys(run_id for run_ids in types.values() for run_id in run_ids if run_id not in above)
            )
            values = {"audit": audit.audit, "types": listed([*types], len(types))}
            yield Sentence("above-ceiling-types", values, {"names": ids}, kind)
        for row in audit.rows:
            if row.versus and row.versus.significant != results[row.run_id].significant:
                values = {"audit": audit.audit, "kind": row.kind, "q": row.left_out, "now": row.versus.significant}
                yield Sentence("audit-changes", values, {"A": (row.run_id,), "B": (rows[0].run_id,)}, kind)
    for a, b in combinations([audit for audit in audits if audit.rows], 2):
        both, either = {*a.disputed} & {*b.disputed}, {*a.disputed, *b.disputed}
        values = {
            "a": a.audit,
            "b": b.audit,
            "both": len(both),
            "either": len(either),
            "kappa": _kappa(a, b, questions),
        }
        yield Sentence("audits-agree", values, {}, kind)


def _kappa(a: ComparedAudit, b: ComparedAudit, questions: Sequence[str]) -> float | None:
    marks_a, marks_b = ({name: name in audit.disputed for name in questions} for audit in (a, b))
    return agreement(marks_a, marks_b, dict.fromkeys(questions, "")).overall.kappa
