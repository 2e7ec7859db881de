"""A visitor of the pages who was let in."""

from collections.abc import Sequence

from starlette.testclient import TestClient

from longmemeval.settings import Folders
from longmemeval.view.app import make_app

TOKEN = "token-of-the-address"


def visitor(folders: Folders, run_ids: Sequence[str] = ()) -> TestClient:
    """A client with the cookie."""
    client = TestClient(make_app(folders, run_ids, token=TOKEN, port=8321), base_url="http://127.0.0.1:8321")
    client.get(f"/runs?token={TOKEN}")
    return client
