"""The specification of a dataset that `datasets import` wrote."""

from longmemeval.benchmarks.spec import Benchmark, Sniffed
from longmemeval.core.on_demand import on_demand
from longmemeval.judges.plants.answers import answer_planting
from longmemeval.judges.question_types import QuestionTypes

SESSIONS = "sessions.json"


def _claims(data: Sniffed) -> bool:
    return data.is_folder and (data.path / SESSIONS).is_file()


CONVERSATIONS = Benchmark(
    name="conversations",
    title="Conversations of your own",
    claims=_claims,
    load=on_demand("longmemeval.benchmarks.conversations.loader:load"),
    shape=f"a folder with {SESSIONS} and questions.yaml, as `longmemeval datasets import` writes it",
    licence="yours",
    types=QuestionTypes(order=("question", "unanswerable"), abilities={"unanswerable": "abstention"}),
    default_judge="offline/lexical",
    planting=answer_planting(),
)
