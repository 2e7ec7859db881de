"""Re-ranking, with a real cross-encoder of four kinds of node that is written here, byte by byte.

Its score of a pair is the share of equal tokens in it: mean over (i, j) of [token i = token j and i is of the query
and j of the text]. The mean is over the padded width, so padding would show in it.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from longmemeval.embedding.local import FOLDER_FILES
from longmemeval.errors import HarnessError
from longmemeval.ranking.rerank import LocalReranker, load_reranker, rerank
from tests.models import minilm_folder

QUERY = "Which pet does Anna own?"
TEXTS = [
    "The train was late again and we all had to wait for it.",
    "Anna has a small dog.",
    "A pet? Anna does own one!",
]

FLOAT, INT64 = 1, 7  # TensorProto.DataType


def field(number: int, value: int | str | bytes) -> bytes:
    """One field of a protobuf message: a number, or anything with a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def attribute(name: str, value: int | Sequence[int]) -> bytes:
    """AttributeProto: name, then i and type INT, or ints and type INTS."""
    if isinstance(value, int):
        return field(5, field(1, name) + field(3, value) + field(20, 2))
    return field(5, field(1, name) + b"".join(field(8, one) for one in value) + field(20, 7))


def node(operator: str, inputs: str, output: str, **attributes: int | Sequence[int]) -> bytes:
    named = b"".join(field(1, name) for name in inputs.split()) + field(2, output) + field(4, operator)
    return field(1, named + b"".join(attribute(name, value) for name, value in attributes.items()))


def tensor_info(name: str, element: int, *dimensions: str | int) -> bytes:
    sizes = [field(1, size) if isinstance(size, int) else field(2, size) for size in dimensions]
    shape = b"".join(field(1, size) for size in sizes)
    return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)))


def cross_encoder(divide_by_zero: bool = False) -> bytes:
    """ModelProto: IR version 6, operator set 11."""
    nodes = [
        node("Unsqueeze", "input_ids", "rows", axes=[2]),
        node("Unsqueeze", "input_ids", "columns", axes=[1]),
        node("Equal", "rows columns", "equal"),
        node("Unsqueeze", "token_type_ids", "row_types", axes=[2]),
        node("Unsqueeze", "token_type_ids", "column_types", axes=[1]),
        node("Less", "row_types column_types", "across"),
        node("And", "equal across", "shared"),
        node("Cast", "shared", "numbers", to=FLOAT),
        node("ReduceMean", "numbers", "share", axes=[1, 2], keepdims=0),
        node("Unsqueeze", "share", "finite", axes=[1]),
        node("Sub", "finite finite", "zero"),
        node("Div", "zero zero", "nan"),
        node("Identity", "nan" if divide_by_zero else "finite", "logits"),
    ]
    inputs = [field(11, tensor_info(name, INT64, "batch", "width")) for name in ("input_ids", "token_type_ids")]
    output = field(12, tensor_info("logits", FLOAT, "batch", 1))
    graph = b"".join(nodes) + field(2, "shared tokens") + b"".join(inputs) + output
    return field(1, 6) + field(7, graph) + field(8, field(1, "") + field(2, 11))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The cross-encoder with a real tokenizer."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in FOLDER_FILES:
        (folder / name).symlink_to(minilm_folder() / name)
    replace_model(folder, cross_encoder())
    return folder


def replace_model(folder: Path, data: bytes) -> None:
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").write_bytes(data)


class ByTable:
    """A reranker whose scores are given; it keeps what it was asked."""

    spec = fingerprint = "test/table"

    def __init__(self, **scores: float) -> None:
        self._scores = scores
        self.asked: list[tuple[str, list[str]]] = []

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        self.asked.append((query, list(texts)))
        return np.array([self._scores[text] for text in texts])


def test_only_the_head_is_read_and_reordered() -> None:
    table = ByTable(b=0.1, d=0.9, a=0.5)
    assert rerank([1, 3, 0, 2], ["a", "b", "c", "d"], "which?", table, 3) == [3, 0, 1, 2]
    assert table.asked == [("which?", ["b", "d", "a"])]


def test_equal_scores_keep_their_order() -> None:
    table = ByTable(a=1.0, b=2.0, c=1.0, d=2.0)
    assert rerank([3, 2, 1, 0], ["a", "b", "c", "d"], "which?", table, 4) == [3, 1, 2, 0]


@pytest.mark.parametrize(("order", "depth"), [([2, 0, 1], 0), ([], 5)])
def test_nothing_to_rerank_asks_nothing(order: list[int], depth: int) -> None:
    table = ByTable()
    assert rerank(order, ["a", "b", "c"], "which?", table, depth) == order
    assert table.asked == []


def test_depth_beyond_the_end_takes_all() -> None:
    assert rerank([0, 1], ["a", "b"], "which?", ByTable(a=0.0, b=1.0), 50) == [1, 0]


def test_cross_encoder_gives_the_score_computed_by_hand(folder: Path) -> None:
    # [CLS] which pet ? [SEP] | a pet [SEP]: 8 tokens, of which pet and [SEP] stand on both sides.
    assert load_reranker(f"fastembed:{folder}").scores("which pet?", ["a pet"]) == pytest.approx([2 / 64])


def test_cross_encoder_ranks_by_query_and_text_together(folder: Path) -> None:
    reranker = load_reranker(f"fastembed:{folder}")
    assert rerank([0, 1, 2], TEXTS, QUERY, reranker, 3) == [2, 1, 0]
    assert rerank([0, 1, 2], TEXTS, "the train", reranker, 3)[0] == 0


def test_score_of_a_text_is_the_same_bits_alone_and_together(folder: Path) -> None:
    reranker = load_reranker(f"fastembed:{folder}")
    together = reranker.scores(QUERY, TEXTS)
    alone = [reranker.scores(QUERY, [text])[0] for text in TEXTS]
    assert together.tolist() == alone
    assert together.dtype == np.float64
    assert len(set(alone)) == 3


def test_model_is_loaded_by_the_first_text_only(folder: Path) -> None:
    reranker = LocalReranker(str(folder))
    assert reranker.scores(QUERY, []).shape == (0,)
    assert "model" not in vars(reranker)


def test_fingerprint_is_that_of_the_files(folder: Path) -> None:
    first = LocalReranker(str(folder))
    assert LocalReranker(str(folder)).fingerprint == first.fingerprint
    assert LocalReranker(str(folder)).scores(QUERY, TEXTS).tolist() == first.scores(QUERY, TEXTS).tolist()
    replace_model(folder, cross_encoder(divide_by_zero=True))
    assert LocalReranker(str(folder)).fingerprint != first.fingerprint


def test_scores_that_are_not_numbers_are_refused(folder: Path) -> None:
    replace_model(folder, cross_encoder(divide_by_zero=True))
    with pytest.raises(HarnessError, match="not finite numbers"):
        LocalReranker(str(folder)).scores(QUERY, TEXTS)


def test_embedding_model_is_no_cross_encoder() -> None:
    with pytest.raises(HarnessError, match=r"cannot be used.*must be a cross-encoder with one score per text"):
        LocalReranker(str(minilm_folder())).scores(QUERY, TEXTS)


def test_damaged_model_is_one_paragraph(folder: Path) -> None:
    replace_model(folder, cross_encoder()[:100])
    with pytest.raises(HarnessError, match="cannot be used") as caught:
        LocalReranker(str(folder)).scores(QUERY, TEXTS)
    assert "\n" not in str(caught.value)


def test_missing_files_are_named(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(HarnessError, match=r"lacks tokenizer\.json"):
        load_reranker(f"fastembed:{folder}")


def test_known_name_is_taken_in_any_case_without_a_download() -> None:
    pytest.importorskip("fastembed")
    reranker = LocalReranker("xenova/MS-marco-minilm-l-6-v2")
    assert reranker.fingerprint.endswith(":Xenova/ms-marco-MiniLM-L-6-v2")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("fastembed:Xenova/ms-marco-MiniLM-L6-v2", r"Did you mean 'Xenova/ms-marco-MiniLM-L-6-v2'"),
        ("fastembed:BAAI/bge-small-en-v1.5", r"neither a folder nor a reranker"),
        ("fastembed", "needs a model.*Write it like fastembed:"),
        ("fastembd:x", "Unknown reranker 'fastembd'.*Did you mean 'fastembed'"),
    ],
)
def test_wrong_spec_says_what_would_be_right(spec: str, message: str) -> None:
    pytest.importorskip("fastembed")
    with pytest.raises(HarnessError, match=message):
        load_reranker(spec)


@pytest.mark.parametrize("downloads", [True, False])
def test_a_named_model_that_is_not_here_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], downloads: bool
) -> None:
    pytest.importorskip("fastembed")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"waits for {seconds} s"))
    why = r" and cannot be downloaded: \S.*" if downloads else ""
    with pytest.raises(HarnessError, match=rf"is not on this machine{why}\. .*--set reranker=fastembed:FOLDER"):
        load_reranker("fastembed:Xenova/ms-marco-MiniLM-L-12-v2", here=not downloads)
    assert "fastembed" not in "".join(capfd.readouterr())


def test_a_named_model_that_was_downloaded_is_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = tmp_path / "models--Xenova--ms-marco-MiniLM-L-6-v2"
    (kept / "snapshots" / "a1" / "onnx").mkdir(parents=True)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("a1")
    for name in FOLDER_FILES:
        at = kept / "snapshots" / "a1" / ("onnx" if name == "model.onnx" else "") / name
        at.write_bytes((folder / name).read_bytes())
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    reranker = load_reranker("fastembed:Xenova/ms-marco-MiniLM-L-6-v2")
    assert reranker.scores("which pet?", ["a pet"]) == pytest.approx([2 / 64])
    assert caplog.messages == []


def test_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed.rerank.cross_encoder", None)
    with pytest.raises(HarnessError, match=r"install .*\[local\]'"):
        load_reranker("fastembed:anything")
