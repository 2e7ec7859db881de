import json
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from longmemeval.core.arrays import Vectors
from longmemeval.embedding.local import FOLDER_FILES, LocalEmbedder
from longmemeval.embedding.registry import load_embedder
from longmemeval.errors import HarnessError
from tests.models import minilm_folder


@pytest.fixture(scope="module")
def minilm() -> LocalEmbedder:
    return LocalEmbedder(str(minilm_folder()))


@pytest.fixture
def copied_folder(tmp_path: Path) -> Path:
    """A model folder of one's own whose small files may be changed."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in FOLDER_FILES:
        (folder / name).symlink_to(minilm_folder() / name)
    return folder


def change(path: Path, **values: object) -> None:
    content = json.loads(path.read_text()) | values
    path.unlink()
    path.write_text(json.dumps(content))


def real_turns(path: Path, count: int) -> list[str]:
    record = json.loads(path.read_text())[0]
    turns = [turn["content"] for session in record["haystack_sessions"] for turn in session if turn["content"].strip()]
    return turns[:count]


@pytest.mark.thorough
def test_row_of_a_real_turn_is_the_same_bits_alone_together_and_shuffled(
    minilm: LocalEmbedder, real_longmemeval: Path
) -> None:
    turns = real_turns(real_longmemeval, 12)
    together = minilm.embed(turns)
    order = np.random.default_rng(0).permutation(len(turns))
    shuffled = minilm.embed([turns[i] for i in order])
    alone = np.concatenate([minilm.embed([turn]) for turn in turns])
    assert np.array_equal(together, alone)
    assert np.array_equal(together[order], shuffled)
    assert together.shape == (12, 384)
    assert together.dtype == np.float32
    assert np.linalg.norm(together, axis=1) == pytest.approx(1.0, abs=1e-6)


def test_meaning_is_found_without_shared_words(minilm: LocalEmbedder) -> None:
    question, near, far = minilm.embed(
        ["Which pet does the user own?", "I just got a small dog.", "The train was late again."]
    )
    assert question @ near > question @ far + 0.1


def test_a_named_model_that_is_not_here_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("fastembed")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"waits for {seconds} s"))
    with pytest.raises(HarnessError, match=r"is not on this machine and cannot be .*--embedder fastembed:FOLDER"):
        LocalEmbedder("BAAI/bge-small-en-v1.5").embed(["a text"])
    assert caplog.messages == ["Downloading the model BAAI/bge-small-en-v1.5 (0.07 GB), once"]


def test_no_texts_give_no_rows_and_load_no_model() -> None:
    embedder = LocalEmbedder(str(minilm_folder()))
    assert embedder.embed([]).shape == (0, 384)
    assert "model" not in vars(embedder)


def test_two_embedders_of_one_folder_live_side_by_side(minilm: LocalEmbedder, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    shutil.copytree(minilm_folder(), other)
    again = LocalEmbedder(str(other))
    assert again.fingerprint == minilm.fingerprint
    assert np.array_equal(again.embed(["a text"]), minilm.embed(["a text"]))


def test_fingerprint_changes_with_whatever_changes_the_vectors(minilm: LocalEmbedder, copied_folder: Path) -> None:
    change(copied_folder / "tokenizer_config.json", model_max_length=8)
    shorter = LocalEmbedder(str(copied_folder))
    text = "the model cuts a text that is longer than its own window of tokens"
    assert shorter.fingerprint != minilm.fingerprint
    assert not np.allclose(shorter.embed([text]), minilm.embed([text]))


def test_full_cache_needs_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, cache = f"fastembed:{minilm_folder()}", tmp_path / "cache.sqlite"
    first = load_embedder(spec, cache_path=cache).embed(["one", "two"])

    def refuse(self: LocalEmbedder, texts: object) -> Vectors:
        raise AssertionError("a cached text was computed again")

    monkeypatch.setattr(LocalEmbedder, "embed", refuse)
    assert np.array_equal(load_embedder(spec, cache_path=cache).embed(["two", "one"]), first[::-1])


def test_missing_files_are_named(copied_folder: Path) -> None:
    (copied_folder / "tokenizer.json").unlink()
    (copied_folder / "config.json").unlink()
    with pytest.raises(HarnessError, match=r"lacks tokenizer\.json, config\.json .*scripts/get_minilm"):
        LocalEmbedder(str(copied_folder))


def test_configuration_without_dimension_is_named(copied_folder: Path) -> None:
    change(copied_folder / "config.json", hidden_size="many")
    with pytest.raises(HarnessError, match=r"hidden_size.*config\.json"):
        LocalEmbedder(str(copied_folder))


def test_wrong_dimension_in_the_configuration_is_told(copied_folder: Path) -> None:
    change(copied_folder / "config.json", hidden_size=100)
    with pytest.raises(HarnessError, match=r"\(384,\), not \(100,\)"):
        LocalEmbedder(str(copied_folder)).embed(["a text"])


def test_damaged_model_is_one_paragraph(copied_folder: Path) -> None:
    (copied_folder / "model.onnx").unlink()
    (copied_folder / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(HarnessError, match="cannot be used") as caught:
        LocalEmbedder(str(copied_folder)).embed(["a text"])
    assert "\n" not in str(caught.value)


def test_known_name_is_taken_in_any_case_without_a_download() -> None:
    embedder = LocalEmbedder("baai/BGE-small-en-v1.5")
    assert embedder.dimension == 384
    assert embedder.fingerprint.endswith(":BAAI/bge-small-en-v1.5")


def test_folder_wins_over_a_model_of_that_name(
    copied_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "BAAI").mkdir()
    copied_folder.rename(tmp_path / "BAAI" / "bge-small-en-v1.5")
    monkeypatch.chdir(tmp_path)
    assert LocalEmbedder("BAAI/bge-small-en-v1.5").fingerprint.startswith("onnx:")


@pytest.mark.parametrize("argument", ["BAAI/bge-smal-en-v1.5", "bge-small-en-v1.5"])
def test_misspelt_name_gets_the_nearest(argument: str) -> None:
    with pytest.raises(HarnessError, match=r"neither a folder nor a model .*Did you mean 'BAAI/bge-small-en-v1\.5'"):
        LocalEmbedder(argument)


def test_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(HarnessError, match=r"install .*\[local\]'"):
        load_embedder("fastembed:anything")


def test_a_model_that_embeds_questions_otherwise_is_refused() -> None:
    with pytest.raises(HarnessError, match="with different adapters, which is not supported"):
        LocalEmbedder("jinaai/jina-embeddings-v3")
