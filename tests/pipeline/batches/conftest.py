"""A server with batch endpoints, and questions whose haystacks are prepared."""

from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest

from longmemeval.dataset import Dataset
from longmemeval.settings import Folders
from tests.batch_server import BatchServer
from tests.pipeline.batches.batched import KEY, reply
from tests.pipeline.helpers import prepared_colours


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with BatchServer(reply) as running:
        yield running


@pytest.fixture(autouse=True)
def _one_certificate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """LiteLLM makes a client for each batch call, and each reads 140 certificates that nobody needs here."""
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    (tmp_path / "one.pem").write_text(first + end)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "one.pem"))


@pytest.fixture(scope="module")
def sixty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Folders]:
    return prepared_colours(tmp_path_factory.mktemp("sixty"), 60)


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Folders]:
    return prepared_colours(tmp_path_factory.mktemp("eight"), 8)


@pytest.fixture
def three(tmp_path: Path) -> tuple[Dataset, Folders]:
    """Three questions, and an empty folder for runs."""
    return prepared_colours(tmp_path, 3)


@pytest.fixture
def of_sixty(sixty: tuple[Dataset, Folders], tmp_path: Path) -> tuple[Dataset, Folders]:
    """Sixty questions, and an empty folder for runs."""
    return sixty[0], sixty[1].model_copy(update={"results_dir": tmp_path / "results"})


@pytest.fixture
def of_eight(eight: tuple[Dataset, Folders], tmp_path: Path) -> tuple[Dataset, Folders]:
    """Eight questions, and an empty folder for runs."""
    return eight[0], eight[1].model_copy(update={"results_dir": tmp_path / "results"})
