"""A judge over HTTP that knows every request it may get, byte for byte, and a data set's way to scores through it.

What it expects is rendered from the authors' texts and the raw files, by none of the harness's code.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longmemeval.dataset import Dataset
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.evaluate.estimate import estimate_grading
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.pipeline.helpers import answers
from tests.server import ModelServer

MEMORIES = ("bm25", "hybrid", "last-k", "engram-lean")
ANSWERER = "openai/answerer"
Messages = tuple[tuple[str, str], ...]
"""Role and content of each message of a request."""


@dataclass(frozen=True)
class Expected:
    """What grading one answer must send, and what follows from the replies."""

    requests: Mapping[Messages, str]
    """To the reply that each gets."""
    scores: Mapping[str, float | None]
    """Name of a judge -> the score by the authors' rules; None: not evaluated."""


Expecting = Callable[[Mapping[str, str]], Iterator[Expected]]
"""From answers, by the question's id, to what grading each of them must send."""


@dataclass
class Checked:
    """What came of one data set."""

    requests: Counter[str] = field(default_factory=Counter)
    """Model -> requests that the judge got."""
    wrong: list[str] = field(default_factory=list)
    """What is not as expected, in words."""
    scores: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    """Memory and judge -> score over all questions, and how many were not evaluated."""
    official: set[str] = field(default_factory=set)
    """Judges that called themselves official."""


def choice(text: object, of: int) -> int:
    """A number below `of` that is always the same for a text."""
    return int.from_bytes(hashlib.sha256(repr(text).encode()).digest()[:4], "big") % of


class CheckingJudge(ModelServer):
    """Answers as the model `answerer`; as any other model only what is expected, everything else is foreign."""

    def __init__(self) -> None:
        super().__init__(self._reply)
        self.expected: dict[Messages, str] = {}
        self.got: Counter[Messages] = Counter()
        self.models: Counter[str] = Counter()
        self._writing = threading.Lock()

    def _reply(self, body: dict[str, Any]) -> str:
        messages = tuple((one["role"], one["content"]) for one in body["messages"])
        if body["model"] == ANSWERER.partition("/")[2]:
            return _answer(messages[-1][1])
        with self._writing:
            self.got[messages] += 1
            self.models[body["model"]] += 1
        return self.expected.get(messages, "I did not expect that.") if body["temperature"] == 0 else "I am too warm."


def _answer(prompt: str) -> str:
    """One to four lines of a prompt, with what a careless replacement stumbles over."""
    lines = [line.strip()[:300] for line in prompt.splitlines() if line.strip()]
    begin = choice(prompt, len(lines))
    return "\n".join([*lines[begin : begin + 1 + choice(lines, 3)], "{pred} <rubric_item> <question> {0}"])


def graded(
    dataset: Dataset,
    judges: Sequence[str],
    expecting: Expecting,
    folders: Folders,
    *,
    memories: Sequence[str] = MEMORIES,
    selection: Selection = Selection(),
    jobs: int = 1,
    tell: Callable[[str], None] = lambda text: None,
) -> Checked:
    """Prepare, answer and grade under each memory; what each judge got and made of it is held against `expecting`.

    Args:
        dataset: the questions.
        judges: prompt sets and models, such as `beam@openai/gpt-4.1-mini`. The first is sent everything; what it
            was told, the others find in the cache.
        expecting: what grading must send.
        folders: the folders.
        memories: to answer under.
        selection: of the questions.
        jobs: processes that prepare.
        tell: gets a line about each step.
    """
    found = Checked()
    prepare(dataset, list(memories), selection=selection, options=PrepareOptions(jobs=jobs), folders=folders)
    server = CheckingJudge()
    with server:
        model = ModelOptions(api_base=server.url, max_attempts=1)
        for memory in memories:
            run_id = f"{dataset.name}-{memory}"
            run(
                dataset,
                memory,
                ANSWERER,
                selection=selection,
                options=RunOptions(run_id=run_id, model_options=model),
                folders=folders,
            )
            said = {line["question_id"]: line["hypothesis"] for line in answers(folders, run_id)}
            expected = list(expecting(said))
            requests = {messages: reply for one in expected for messages, reply in one.requests.items()}
            server.expected |= requests
            before = set(server.got)
            for place, judge in enumerate(judges):
                sent, options = server.got.total(), EvaluateOptions(judge=judge, model_options=model)
                foreseen = (
                    estimate_grading([judge], run_id, options=options, folders=folders).judges[0].stage.work.calls
                )
                if place and foreseen:
                    found.wrong.append(f"{run_id}, {judge}: {foreseen} calls are foreseen")
                made = evaluate(run_id, options=options, folders=folders).metrics
                found.scores[memory, judge] = made.overall.accuracy, made.overall.not_evaluated
                found.official |= {judge} if made.judge.official else set()
                scores = [one.scores[judge.partition("@")[0]] for one in expected]
                right = sum(score or 0 for score in scores) / len(scores), scores.count(None)
                if abs(made.overall.accuracy - right[0]) > 1e-9 or made.overall.not_evaluated != right[1]:
                    found.wrong.append(f"{run_id}, {judge}: {found.scores[memory, judge]} instead of {right}")
                if place and server.got.total() != sent:
                    found.wrong.append(f"{run_id}, {judge}: paid again for {server.got.total() - sent} replies")
                tell(f"{run_id:28} {judge:45} {100 * made.overall.accuracy:5.1f}, not evaluated: {right[1]}")
            missing = requests.keys() - server.got.keys()
            foreign = server.got.keys() - before - requests.keys()
            found.wrong += [f"{run_id}: {len(missing)} requests are missing"] * bool(missing)
            found.wrong += [f"{run_id}: not the official words: {one}" for one in foreign]
            found.wrong += [f"{run_id}: {problem}" for problem in verify(run_id, folders=folders).problems]
        found.requests = server.models
    return found
