"""From a judge's spec, as the user writes it, to the judge.

| spec | judge |
|---|---|
| `offline/lexical`, `offline/locomo-f1`, `offline/mem0-f1`, `offline/mem0-bleu1` | rules, no model |
| `MODEL` | the benchmark's own prompts on this chat model |
| `SET@MODEL` | the prompts of a template set: `longmemeval` (official), a shipped one or a file of the user's |
"""

from collections.abc import Callable, Mapping

from longmemeval.benchmarks.dataset_protocol import Benchmark
from longmemeval.errors import HarnessError, nearest
from longmemeval.evaluation.judges.lexical import LEXICAL_JUDGE, lexical_judge
from longmemeval.evaluation.judges.locomo import LOCOMO_F1, locomo_f1_judge
from longmemeval.evaluation.judges.longmemeval import DEFAULT_JUDGE, LongMemEvalJudge
from longmemeval.evaluation.judges.mem0 import MEM0_BLEU1, MEM0_F1, mem0_bleu1_judge, mem0_f1_judge
from longmemeval.evaluation.judges.protocol import Judge
from longmemeval.evaluation.judges.rules import RuleJudge
from longmemeval.evaluation.judges.template_judge import TemplateJudge
from longmemeval.evaluation.judges.template_set import FILE_ENDINGS, OFFICIAL_SET, load_template_set, shipped_sets
from longmemeval.evaluation.judges.votes import RepeatedJudge, VotingJudge
from longmemeval.llm.endpoints import served_at
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatModel

RULES: Mapping[str, Callable[[], RuleJudge]] = {
    LEXICAL_JUDGE: lexical_judge,
    LOCOMO_F1: locomo_f1_judge,
    MEM0_F1: mem0_f1_judge,
    MEM0_BLEU1: mem0_bleu1_judge,
}
"""The judges that need no model, by their specs."""

_DEFAULT_JUDGES: Mapping[Benchmark, str] = {
    "longmemeval": DEFAULT_JUDGE,
    "locomo": LOCOMO_F1,
    "convomem": "gemini/gemini-2.5-flash",
}
_OWN_SETS: Mapping[Benchmark, str] = {"longmemeval": OFFICIAL_SET, "locomo": "lenient", "convomem": "convomem"}
_SCRIPTED = "offline/scripted:"


def default_judge(benchmark: Benchmark) -> str:
    """The spec of the judge that a benchmark's authors grade with."""
    return _DEFAULT_JUDGES[benchmark]


def load_judge(
    spec: str,
    model_factory: Callable[[str], ChatModel],
    *,
    benchmark: Benchmark = "longmemeval",
    votes: int = 1,
    repeat: int = 1,
    options: ModelOptions = ModelOptions(),
) -> Judge:
    """The judge that `spec` names.

    Args:
        spec: as in the table above; models are chat models (`openai/gpt-4o-2024-08-06`, `offline/scripted:FILE`).
        model_factory: makes the chat model of a spec.
        benchmark: whose prompts a model without a set gets.
        votes: how often the model is asked about each answer, 1 or an odd number.
        repeat: the how-manieth time the same answers are graded; from 2 on the judge has an id of its own.
        options: how the model is reached: the address it is served at is part of the judge.

    Raises:
        HarnessError: no such rules or template set (with the nearest name), a faulty set, an even number of votes,
            more than one vote or time for rules, or the factory knows no such model.
    """
    if votes < 1 or repeat < 1:
        raise HarnessError(f"A judge cannot grade {min(votes, repeat)} times", fix="Give votes and repeats from 1 on")
    if spec in RULES:
        if votes > 1 or repeat > 1:
            what = f"'{spec}' says the same however often it is asked"
            raise HarnessError(what, fix="Ask it once; several votes and judging anew are for chat models")
        return RULES[spec]()
    judge = _model_judge(spec, model_factory, benchmark, options)
    if votes > 1:
        judge = VotingJudge(judge, votes)
    return RepeatedJudge(judge, repeat) if repeat > 1 else judge


def _model_judge(
    spec: str, model_factory: Callable[[str], ChatModel], benchmark: Benchmark, options: ModelOptions
) -> Judge:
    templates, model = _split(spec, _OWN_SETS[benchmark])
    if not model or (model.startswith("offline/") and not model.startswith(_SCRIPTED)):
        raise HarnessError(f"There is no judge '{spec}'", fix=nearest(model, [*RULES, f"{_SCRIPTED}FILE"]))
    loaded = None if templates == OFFICIAL_SET else load_template_set(templates)
    chat, endpoint = model_factory(model), served_at(model, options)
    return TemplateJudge(loaded, chat, endpoint) if loaded else LongMemEvalJudge(chat, endpoint)


def _split(spec: str, own_set: str) -> tuple[str, str]:
    """Template set and model of a spec. Names of models can hold an `@` too (`claude-3-5-sonnet@20240620`)."""
    left, at, right = spec.partition("@")
    sets = (OFFICIAL_SET, *shipped_sets())
    if at and (left in sets or left.endswith(FILE_ENDINGS)):
        if not right:
            raise HarnessError(f"The judge '{spec}' has no model", fix=f"Write {left}@MODEL")
        return left, right
    # No provider's name holds an `@`, so what stands before it here was to be a set.
    if "/" in right and "/" not in left:
        raise HarnessError(
            f"There is no template set '{left}'",
            where=f"judge '{spec}'",
            fix=f"{nearest(left, sets)}, or a file that ends in {' or '.join(FILE_ENDINGS)}",
        )
    return own_set, spec
