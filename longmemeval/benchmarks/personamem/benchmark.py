"""The specification of PersonaMem (Jiang et al. 2025)."""

from collections.abc import Iterator
from random import Random

from longmemeval.benchmarks.retrieval_protocols import RetrievalRules
from longmemeval.benchmarks.spec import Benchmark, Sniffed
from longmemeval.core.on_demand import on_demand
from longmemeval.judges.plants.planting import SAID_OF_NOTHING, Ground, Kind, Made, Make, Planting, non_answers
from longmemeval.judges.question_types import QuestionTypes
from longmemeval.records import Gold, Question

KINDS = {
    "letter": Kind(True, "the letter of the right option"),
    "final": Kind(True, "other letters, and the right one as the final answer"),
    "other-letter": Kind(False, "the letter of another option"),
    "two-letters": Kind(False, "the right letter and another side by side"),
    **SAID_OF_NOTHING,
}


def _on(ground: Ground) -> Make:
    def make(question: Question, gold: Gold, random: Random) -> Iterator[Made]:
        right = str(gold.answer)[:3]
        other = random.choice([option[:3] for option in question.options if option[:3] != right])
        yield Made("letter", f"<final_answer> {right}")
        yield Made("final", f"It is {other} or {right}.\n<final_answer>{right}</final_answer>")
        yield Made("other-letter", f"<final_answer> {other}")
        yield Made("two-letters", f"<final_answer> {right} or {other}")
        yield from non_answers(random)

    return make


PLANTING = Planting(on=_on, kinds=KINDS)


CITATION = """@inproceedings{jiang2025personamem,
  title = {Know Me, Respond to Me: Benchmarking LLMs for Dynamic User Profiling and Personalized Responses at Scale},
  author = {Jiang, Bowen and others},
  booktitle = {Conference on Language Modeling},
  year = {2025},
  eprint = {2504.14225},
  archivePrefix = {arXiv}
}"""
ABILITIES = {
    "recalling_facts_mentioned_by_the_user": "fact-recall",
    "recall_user_shared_facts": "preference",
    "track_full_preference_evolution": "knowledge-update",
    "recalling_the_reasons_behind_previous_updates": "fact-recall",
    "provide_preference_aligned_recommendations": "preference",
    "suggest_new_ideas": "preference",
    "generalizing_to_new_scenarios": "inference",
}
_CONTROLS = (
    "PersonaMem: the longest option, with no history read, is right in 304 of the 589 questions of size 32k (51.6%); "
    "with the shortest for suggest_new_ideas in 396 (67.2%). A score below these is no evidence of memory; "
    "`--model offline/longest-option` runs the first. Not the authors' prompt: the instruction is in our words."
)


def _claims(data: Sniffed) -> bool:
    if not data.is_folder or not any(data.path.glob("questions_*.csv")):
        return False
    from longmemeval.benchmarks.personamem.loader import files_in

    return bool(files_in(data.path))


PERSONAMEM = Benchmark(
    name="personamem",
    title="PersonaMem",
    claims=_claims,
    load=on_demand("longmemeval.benchmarks.personamem.loader:PersonaMemDataset"),
    shape="a folder with questions_<size>.csv and shared_contexts_<size>.jsonl",
    options=frozenset({"persona"}),
    licence="MIT by its card",
    citation=CITATION,
    types=QuestionTypes(order=tuple(ABILITIES), abilities=ABILITIES, average_needs=frozenset(ABILITIES)),
    default_judge="offline/personamem",
    planting=PLANTING,
    retrieval=RetrievalRules(level="turn"),
    quirks=on_demand("longmemeval.benchmarks.personamem.loader:personamem_quirks"),
    unit=lambda dataset, question: dataset.units[question.question_id],
    stand_in_dates=True,
    footnotes=dict.fromkeys(ABILITIES, _CONTROLS),
)
