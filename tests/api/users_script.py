"""What a user would write, for `mypy --strict`, which `scripts/test` runs over this folder. Nobody runs it.

The last lines are wrong on purpose: mypy rejects a `type: ignore` that ignores nothing.
"""

import longmemeval
from longmemeval import Comparison, Evaluation, Memory, Run, compare, load_dataset, run

data = load_dataset("sample").sample(50, seed=0).where(type="multi-session")
runs: list[Evaluation] = [
    run(data, memory, model="offline/extractive", max_cost=2.0).evaluate("offline/lexical")
    for memory in ("bm25", Memory("hybrid", top_k=20), int)
]
table: Comparison = compare(*runs)
verdict: str = table.verdict.text
beyond: float = runs[0].score + 1
asked: int = runs[0].by_type["x"].n
shown: tuple[str, str] = (table.report("r.html").name, next(iter(Run.open("x").answers.values())).hypothesis.upper())
lost = table.lost

misspelt = longmemeval.runn  # type: ignore[attr-defined]
unlike = longmemeval.run(data, "bm25", model=3)  # type: ignore[arg-type]
unknown = runs[0].skore  # type: ignore[attr-defined]
