"""The authors' judge of BEAM apart from the harness: its words, what it sends about an answer, and its scores."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from longmemeval.benchmarks.beam.protocol import ANSWERING_FILE, METRICS_FILE, PROMPTS_FILE
from tests.benchmarks.checking import Expected, Expecting, Messages, choice
from tests.conftest import SHARED_DATA

NUGGET = "unified_llm_judge_base_prompt"
JUDGES = ("beam@openai/gpt-4.1-mini", "beam-paper@openai/gpt-4.1-mini")


def official_texts() -> dict[str, str]:
    """The authors' texts by their names."""
    document = json.loads((SHARED_DATA.parent / "protocol" / "beam_judge_templates.json").read_bytes())
    return {name: one["text"] for name, one in document["templates"].items()}


def clone(folder: Path, texts: dict[str, str], nugget: str = NUGGET) -> Path:
    """What a checkout of the authors' code has of their words; never run."""
    user = (
        texts["llm_equivalence.user"].replace("{first}", "{first_paragraph}").replace("{second}", "{second_paragraph}")
    )
    rag = texts["answer_generation_for_rag"]
    prompts = f"import langchain\nunified_llm_judge_base_prompt = {texts[nugget]!r}\nrag = {rag!r}\n"
    asking = f"raise SystemExit\nasked = f{texts['long_context_question']!r}\n"
    code = f"raise SystemExit\ndef same(a, b):\n    return [{texts['llm_equivalence.system']!r}, f{user!r}]\n"
    for name, content in ((PROMPTS_FILE, prompts), (METRICS_FILE, code), (ANSWERING_FILE, asking)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def expecting(chats: Path, texts: dict[str, str]) -> Expecting:
    """What the official code sends about answers to the questions of `chats/<size>`."""
    questions = {
        f"{chats.name}-{file.parents[1].name}/{ability}/{number}": (ability, one["rubric"])
        for file in chats.glob("*/probing_questions/probing_questions.json")
        for ability, listed in json.loads(file.read_bytes()).items()
        for number, one in enumerate(listed)
    }

    def expected(said: Mapping[str, str]) -> Iterator[Expected]:
        for question_id, answer in said.items():
            yield _graded(*questions[question_id], answer, texts)

    return expected


def _graded(ability: str, rubric: list[str], answer: str, texts: dict[str, str]) -> Expected:
    """`compute_metrics.py:345-640`: a call for each nugget, and what comes of the replies."""
    requests, scores = dict[Messages, str](), list[float]()
    for nugget in rubric:
        prompt = texts[NUGGET].replace("<rubric_item>", nugget).replace("<llm_response>", answer)
        scores.append((0.0, 0.5, 1.0)[choice(prompt, 3)])
        requests[("user", prompt),] = json.dumps({"score": scores[-1], "reason": "r"})
    if ability != "event_ordering":
        whole = [int(score) for score in scores]
        by_judge = {"beam": sum(whole) / len(whole), "beam-paper": sum(scores) / len(scores)}
        return Expected(requests, by_judge)

    def same(nugget: str, line: str) -> bool:
        user = texts["llm_equivalence.user"].replace("{first}", "\0").replace("{second}", line).replace("\0", nugget)
        reply = ("YES", "NO", "No.")[choice((nugget, line), 3)]
        requests[("system", texts["llm_equivalence.system"]), ("user", user)] = reply
        return reply == "YES"

    tau = _tau(rubric, _aligned(rubric, answer, same))
    return Expected(requests, dict.fromkeys(("beam", "beam-paper"), tau))


def _aligned(rubric: list[str], answer: str, same: Callable[[str, str], bool]) -> list[str]:
    """`align_with_llm`, compute_metrics.py:136-162."""
    used, found = set[int](), list[str]()
    for line in answer.split("\n"):
        free = (index for index, nugget in enumerate(rubric) if index not in used and same(nugget, line))
        index = next(free, None)
        found.append(line if index is None else rubric[index])
        used |= set() if index is None else {index}
    return found


def _tau(reference: list[str], system: list[str]) -> float | None:
    """`event_ordering_score`, compute_metrics.py:270-308."""
    from scipy.stats import kendalltau

    union = list(dict.fromkeys(reference + system))

    def ranks(items: list[str]) -> list[int]:
        last: dict[str, Any] = {item: place for place, item in enumerate(items, 1)}
        return [last.get(item, len(union) + 1) for item in union]

    tau = (float(kendalltau(ranks(reference), ranks(system)).statistic) + 1) / 2
    return None if math.isnan(tau) else tau
