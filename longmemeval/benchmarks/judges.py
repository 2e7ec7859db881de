"""Loading the judge for a spec that the user writes.

| spec | judge |
|---|---|
| a name of rules, such as `offline/lexical` | these rules, no model |
| `MODEL` | the benchmark's own prompts on this chat model |
| `SET@MODEL` | other prompts: registered under `longmemeval.judges`, or a template set of the user's own |
"""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from longmemeval.benchmarks.spec import Benchmark
from longmemeval.benchmarks.specs import benchmark_of, benchmarks
from longmemeval.core.text.figures import count_of
from longmemeval.core.text.words import is_foreign
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.definition import JUDGE_DEFINITIONS, compares_words, rule_names, rules_of, set_names
from longmemeval.judges.protocol import Judge
from longmemeval.judges.template_set import FILE_ENDINGS, TemplateJudge, choices, load_template_set
from longmemeval.judges.votes import RepeatedJudge, VotingJudge
from longmemeval.llm.http.endpoints import served_at
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatModel
from longmemeval.records import Gold, Question
from longmemeval.settings import Folders

FOREIGN_SHARE = 0.05
"""Share of questions in other languages from which scores by English words get a warning."""
_SCRIPTED = "offline/scripted:"


def default_judge_of(dataset: Dataset) -> str:
    """Return the judge that grades answers to a data set if none is named.

    Raises:
        HarnessError: it compares English words, and the data are not in English.
    """
    spec = benchmark_of(dataset).default_judge
    rules = rules_of(spec)
    if rules and compares_words(rules.identity) and (foreign := foreign_part(dataset)):
        raise HarnessError(
            f"The default judge {spec} compares English words, and {foreign} of '{dataset.name}' are not in English",
            fix=f"Name a chat model with --judge MODEL. --judge {spec} grades by English words all the same",
        )
    return spec


def foreign_part(dataset: Dataset) -> str:
    """Return how many questions of a data set are not in English; empty if it is English."""
    questions = list(dataset.questions())
    foreign = foreign_questions(questions, dataset.gold)
    number = count_of(len(questions), "question")
    return f"{len(foreign):,} of {number}" if are_foreign(foreign, len(questions)) else ""


def foreign_questions(questions: Iterable[Question], gold: Callable[[str], Gold]) -> frozenset[str]:
    """Return the ids of the questions that are not in English, or whose gold is not."""
    return frozenset(
        question.question_id
        for question in questions
        if is_foreign(question.text) or is_foreign(str(gold(question.question_id).answer))
    )


def are_foreign(foreign: Collection[str], questions: int) -> bool:
    """Return whether so many of the questions are foreign that scores by English words suffer."""
    return len(foreign) >= max(1.0, FOREIGN_SHARE * questions)


def load_judge(
    spec: str,
    model_factory: Callable[[str], ChatModel],
    *,
    benchmark: Benchmark,
    votes: int = 1,
    repeat: int = 1,
    options: ModelOptions = ModelOptions(),
    data_dir: Path | None = None,
) -> Judge:
    """Return the judge that `spec` names.

    Args:
        spec: as in the table above; models are chat models (`openai/gpt-4o-2024-08-06`, `offline/scripted:FILE`).
        model_factory: makes the chat model of a spec.
        benchmark: the benchmark whose prompts a model without a set gets.
        votes: number of votes of the model on each answer, 1 or an odd number.
        repeat: number of this grading of the same answers; from 2 on the judge has its own id.
        options: connection options of the model; its address is part of the judge.
        data_dir: the data folder, with the authors' texts; None: from the environment.

    Raises:
        HarnessError: no such rules or template set (names the nearest), a faulty set, an even number of votes,
            more than one vote or grading for rules, or the factory knows no such model.
    """
    if votes < 1 or repeat < 1:
        raise HarnessError(
            f"A judge cannot grade {min(votes, repeat)} times", fix="Use votes and repeats of at least 1"
        )
    make = JUDGE_DEFINITIONS.get(spec).rules if spec in JUDGE_DEFINITIONS else None
    if make:
        if votes > 1 or repeat > 1:
            what = f"'{spec}' gives the same labels every time"
            raise HarnessError(what, fix="Grade once; votes and --rejudge are for chat models")
        return make()
    judge = _model_judge(spec, model_factory, benchmark, options, data_dir or Folders().data_dir)
    if votes > 1:
        judge = VotingJudge(judge, votes)
    return RepeatedJudge(judge, repeat) if repeat > 1 else judge


def _model_judge(
    spec: str, model_factory: Callable[[str], ChatModel], benchmark: Benchmark, options: ModelOptions, data_dir: Path
) -> Judge:
    name, model = _split(spec, benchmark.prompts)
    if not model or (model.startswith("offline/") and not model.startswith(_SCRIPTED)):
        raise HarnessError(f"There is no judge '{spec}'", fix=nearest(model, [*rule_names(), f"{_SCRIPTED}FILE"]))
    prompts = JUDGE_DEFINITIONS.get(name).prompts if name in JUDGE_DEFINITIONS else None
    if prompts:
        return prompts.judge(model_factory(model), served_at(model, options), data_dir)
    templates = load_template_set(name, choices([known.types for known in benchmarks()]))
    return TemplateJudge(templates, model_factory(model), served_at(model, options))


def _split(spec: str, own_set: str) -> tuple[str, str]:
    """Return prompts and model of a spec. A model's name can contain an `@` too (`claude-3-5-sonnet@20240620`)."""
    left, at, right = spec.partition("@")
    if at and (left.endswith(FILE_ENDINGS) or (left in JUDGE_DEFINITIONS and not rules_of(left))):
        if not right:
            raise HarnessError(f"The judge '{spec}' has no model", fix=f"Write {left}@MODEL")
        return left, right
    # No provider's name contains an `@`, so the part before it was meant to be a set.
    if "/" in right and "/" not in left:
        raise HarnessError(
            f"There is no template set '{left}'",
            where=f"judge '{spec}'",
            fix=f"{nearest(left, set_names())}, or a file that ends in {' or '.join(FILE_ENDINGS)}",
        )
    return own_set, spec
