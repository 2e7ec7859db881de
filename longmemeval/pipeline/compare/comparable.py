"""Check which runs may be compared, and note where they differ in more than their memory."""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, structs

from longmemeval.core.options import words_of_records
from longmemeval.core.text.figures import UNKNOWN, count_of, listed
from longmemeval.errors import HarnessError
from longmemeval.measures.metrics import compute_metrics
from longmemeval.pipeline.compare.sentences import Sentence
from longmemeval.reading.options import ReadingOptions
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.warnings import OF_QUESTIONS, question_warnings
from longmemeval.results.selection import Selection

_MAX_LISTED = 4
"""Run ids named in one message before the rest is counted."""
_MEMORY_SETTINGS = ("memory", "not_reproducible", "parts")
"""Settings that differ because the memories do."""
_NOT_DECISIVE = ("repeat", "save_prompts", "preparation", "reads_gold")
"""Settings that may differ without a note: they do not change what an answer is worth."""
_IN_WORDS = {
    "model.spec": "model",
    "model.api_base": "address of the model",
    "model.temperature": "temperature",
    "model.max_tokens": "longest answer",
    "reading.template": "prompt",
    "reading.options_template": "prompt for choices",
    "reading.note_template": "prompt for notes",
    "reading.tools": "tools",
    "query_model.spec": "model that analyses questions",
    "embedder.spec": "embedder",
    "embedder.fingerprint": "files of the embedder",
    "reranker": "files of the reranker",
    "embedder.query_prefix": "prefix of questions",
    "batch": "use of a batch endpoint",
} | words_of_records(ReadingOptions, "reading")
"""Plain words for settings whose names say too little; any other goes by the last part of its dotted name."""


def check_comparable(
    graded: Sequence[Evaluation], bridge: Callable[[Sequence[Evaluation]], str] = lambda graded: ""
) -> None:
    """Raise if the runs' scores cannot be compared.

    Args:
        bridge: gives what else is known of the judges of runs that were graded by different ones, to follow the advice.

    Raises:
        HarnessError: a run is given twice, or the runs differ in data, metric, judge or questions.
    """
    ids = [run.manifest.run_id for run in graded]
    if twice := next((run_id for run_id in ids if ids.count(run_id) > 1), None):
        raise HarnessError(f"Run '{twice}' is given twice", fix="Name each run once")
    _refuse(
        graded,
        "The runs answered different data",
        lambda run: run.manifest.dataset["content_sha256"],
        lambda run: f"{run.manifest.dataset['name']} with content {run.manifest.dataset['content_sha256'][:12]}…",
        "Rerun on the same data, or show them side by side, by ability, with --across",
    )
    differ = len({_judge(run) for run in graded}) > 1
    remedy = _one_judge(graded) + bridge(graded) if differ else ""
    for what, key in (("metrics", _metric), ("judges", _judge)):
        _refuse(graded, f"The runs are scored by different {what}", key, _judge_and_metric, remedy)
    _refuse(
        graded,
        "The runs answered different questions",
        lambda run: frozenset(run.asked.questions),
        lambda run: count_of(len(run.asked.questions), "question"),
        _common_remedy(graded),
    )


def _metric(run: Evaluation) -> str:
    return run.metrics.judge.metric


def _judge(run: Evaluation) -> str:
    return run.metrics.judge.id


def _judge_and_metric(run: Evaluation) -> str:
    return f"{_judge(run)} ({_metric(run)})"


def _refuse(
    graded: Sequence[Evaluation],
    what: str,
    key: Callable[[Evaluation], Hashable],
    shown: Callable[[Evaluation], str],
    fix: str,
) -> None:
    """Raise unless `key` is the same for all runs; the message lists each run's value."""
    groups: dict[Hashable, list[Evaluation]] = {}
    for run in graded:
        groups.setdefault(key(run), []).append(run)
    if len(groups) > 1:
        values = [f"{listed([run.id for run in alike], _MAX_LISTED)}: {shown(alike[0])}" for alike in groups.values()]
        raise HarnessError(f"{what}: {'; '.join(values)}", fix=fix)


def _one_judge(graded: Sequence[Evaluation]) -> str:
    """Return the advice that leads to runs graded by the same judge."""
    judges = [{metrics.judge.id for metrics in run.files.metrics} for run in graded]
    if shared := sorted(set[str].intersection(*judges)):
        return "With --judge, name a judge that has graded all of them: " + ", ".join(shared)
    return "Have all of them graded by one judge (`longmemeval evaluate RUN --judge SPEC`), then name it with --judge"


def _common_remedy(graded: Sequence[Evaluation]) -> str:
    shared = len(_shared_questions(graded))
    again = "rerun with the same selection"
    return f"Give --common to compare on the {shared:,} they share, or {again}" if shared else again.capitalize()


def _shared_questions(graded: Sequence[Evaluation]) -> set[str]:
    return set.intersection(*(set(run.asked.questions) for run in graded))


def on_common_questions(graded: Sequence[Evaluation]) -> tuple[list[Evaluation], list[Sentence]]:
    """Return the runs restricted to the questions that all of them share, with their scores computed again.

    Returns:
        The runs and a sentence on what was left out; none if they answered the same questions anyway.

    Raises:
        HarnessError: the runs share no question.
    """
    shared = _shared_questions(graded)
    if not shared:
        raise HarnessError("The runs have no questions in common", fix="Rerun with the same selection")
    left_out = {run.id: len(run.asked.questions) - len(shared) for run in graded}
    if not any(left_out.values()):
        return list(graded), []
    counts = ", ".join(f"{count:,} of {run_id}" for run_id, count in left_out.items() if count)
    sentence = Sentence("common-questions", {"n": len(shared), "left_out": counts}, kind="caution")
    return [_restricted(run, shared) for run in graded], [sentence]


def _restricted(run: Evaluation, shared: set[str]) -> Evaluation:
    if len(run.asked.questions) == len(shared):
        return run
    question_ids = tuple(question_id for question_id in run.manifest.question_ids if question_id in shared)
    asked = RunQuestions(
        structs.replace(run.manifest, question_ids=question_ids, selection=Selection(question_ids=question_ids)),
        run.asked.dataset,
    )
    answers = {question_id: answer for question_id, answer in run.answers.items() if question_id in shared}
    metrics = compute_metrics(
        asked.golds(),
        run.judgements,
        run.metrics.judge,
        run=run.manifest.run_id,
        haystacks=asked.units,
        hypotheses={name: answer.hypothesis for name, answer in answers.items() if answer.status == "ok"},
        types=asked.benchmark.types,
    )
    part = f"{len(shared):,} of {asked.total:,} questions, those that all runs share" if asked.part else ""
    answered = [answer for answer in answers.values() if answer.status == "ok"]
    warnings = (
        *question_warnings(asked, answered, control=run.summary.control is not None),
        *(warning for warning in run.summary.warnings if warning.code not in OF_QUESTIONS),
    )
    summary = structs.replace(
        run.summary,
        metrics=metrics,
        part=part,
        judge_check=run.corrected(metrics),
        warnings=warnings,
    )
    judgements = {question_id: judgement for question_id, judgement in run.judgements.items() if question_id in shared}
    return structs.replace(run, summary=summary, answers=answers, judgements=judgements, asked=asked)


def what_differs(graded: Sequence[Evaluation]) -> Iterator[Sentence]:
    """Yield sentences on everything but settings that makes the runs less comparable."""
    foreign = tuple(run.id for run in graded if run.manifest.kind != "run")
    if foreign:
        yield Sentence("answers-elsewhere", {}, {"names": foreign}, "caution")
    for run in graded:
        if (status := run.manifest.status) != "completed":
            yield Sentence("not-completed", {"status": status}, {"A": (run.id,)}, "caution")
        if run.summary.reads_gold:
            yield Sentence("reads-gold", {}, {"A": (run.id,)})
    if len({run.metrics.judge.official for run in graded}) > 1:
        served = tuple(run.id for run in graded if not run.metrics.judge.official)
        yield Sentence("other-judge-model", {}, {"names": served}, "caution")


class SettingDifference(Struct, frozen=True):
    """One setting in which runs differ."""

    text: str
    """A sentence with its values."""
    in_names: bool
    """Whether the names of the runs say it already."""


def setting_differences(graded: Sequence[Evaluation], names: Mapping[str, str] = {}) -> dict[str, SettingDifference]:
    """Return a sentence for each setting in which the runs differ, keyed by the setting in plain words.

    Of the memory's own settings, only the budget is reported. For example, "reading method" has the sentence "Reading
    method: con in a; direct elsewhere."

    Args:
        names: names of the runs by their ids, where they are not the ids themselves.
    """
    graded = [run for run in graded if run.manifest.kind == "run"]
    values: dict[str, dict[str, list[Evaluation]]] = {}
    settings = {run.manifest.run_id: dict(decisive_settings(run.manifest.settings.plain)) for run in graded}
    for name in sorted({name for run_settings in settings.values() for name in run_settings}):
        for run in graded:
            recorded = settings[run.manifest.run_id]
            # Only runs that read vectors have an embedder, and only memories that search a budget.
            if name in recorded or not name.startswith(("embedder.", "budget")):
                values.setdefault(name, {}).setdefault(_shown(recorded.get(name)), []).append(run)
    differences: dict[str, SettingDifference] = {}
    for name, groups in values.items():
        if len(groups) > 1:
            words, *rarer = in_words(name), *sorted(groups.items(), key=lambda group: len(group[1]))
            commonest, alike = rarer.pop()
            in_names = all(
                value.rpartition("/")[2] in ("none", *re.split(r"[ ,=]+", names.get(run.id, "")))
                for value, runs in groups.items()
                for run in runs
            )
            shown = {} if in_names else names
            at = partial(_place, every=[run for runs in groups.values() for run in runs], names=shown)
            elsewhere = where if (where := at(alike)).startswith("with ") or len(alike) <= 2 else "elsewhere"
            by_value = "; ".join(f"{value} {at(runs)}" for value, runs in rarer)
            text = f"{words[0].upper()}{words[1:]}: {by_value}; {commonest} {elsewhere}."
            differences[words] = SettingDifference(text, in_names)
    return differences


def in_words(setting: str) -> str:
    """Return the plain words for a setting, given its dotted name."""
    own = setting if setting.startswith(("protocol", "query_model")) else setting.rpartition(".")[2]
    return _IN_WORDS.get(setting, own.replace(".", " ").replace("_", " "))


def settings_side_by_side(graded: Sequence[Evaluation]) -> dict[str, list[str]]:
    """Return each setting in which the runs differ, including those of the memories, with its value in each run.

    Runs imported from another system have no settings.
    """
    per_run = [dict(_leaves({k: v for k, v in _settings(run).items() if k not in _NOT_DECISIVE})) for run in graded]
    names = dict.fromkeys(name for settings in per_run for name in settings)
    table = {name: [_shown(settings[name]) if name in settings else UNKNOWN for settings in per_run] for name in names}
    return {name: values for name, values in table.items() if len(set(values)) > 1}


def _settings(run: Evaluation) -> Mapping[str, Any]:
    return run.manifest.settings.plain if run.manifest.kind == "run" else {}


def decisive_settings(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and value of each setting; of the memory's settings, only the budget."""
    parameters = settings.get("memory", {}).get("parameters", {})
    if "budget" in parameters:
        yield "budget", parameters["budget"]
    yield from _leaves(
        {name: value for name, value in settings.items() if name not in _MEMORY_SETTINGS and name not in _NOT_DECISIVE}
    )


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        elif value is not None or prefix:
            yield f"{prefix}{name}", value


def _shown(value: object) -> str:
    text = "none" if value is None else f"{value:,}" if type(value) is int else str(value)
    return text if len(text) <= 60 else f"{text[:12]}…"


def _place(runs: Sequence[Evaluation], every: Sequence[Evaluation], names: Mapping[str, str]) -> str:
    """Return "with con" if that part of their names tells these runs from all others, else "in" and their names."""
    own = [names.get(run.id, run.id) for run in runs]
    others = [names.get(run.id, run.id) for run in every if run not in runs]
    taken = {part for name in others for part in name.split(", ")}
    for part in own[0].split(", ")[1:]:
        if part not in taken and all(part in name.split(", ")[1:] for name in own):
            return f"with {part}"
    return f"in {listed(list(dict.fromkeys(own)), _MAX_LISTED, '; ' if any(', ' in name for name in own) else ', ')}"
