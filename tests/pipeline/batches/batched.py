"""What the tests of batches share: a run by batch, and answers without what may differ."""

import json
import re
from typing import Any

from msgspec import structs

from longmemeval.dataset import Dataset
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.options import BatchOptions
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.settings import Folders
from tests.batch_server import BatchServer
from tests.pipeline.helpers import answers
from tests.pipeline.sweeps import PRICED
from tests.server import ModelServer

BATCH = BatchOptions(poll_s=0.01)
KEY = "sk-test-0123456789abcdef"
_MAY_DIFFER = ("recall_ms", "latency_ms", "usage", "attempts")


def reply(body: dict[str, Any]) -> str:
    """An answer that follows from the prompt, whoever asks and when."""
    things = re.findall(r"bicycle\d+", body["messages"][-1]["content"])
    return f"The {things[-1] if things else 'thing'} is of the colour that I was told."


def patience(server: ModelServer) -> ModelOptions:
    """Three attempts at a call, and hardly a wait between them."""
    return ModelOptions(server.url, max_attempts=3, max_wait_s=0.01, give_up_after_s=5.0)


def ask(dataset: Dataset, folders: Folders, server: BatchServer, run_id: str = "r", **changes: object) -> RunReport:
    """A run by batch, unless it is told otherwise."""
    options = RunOptions(run_id=run_id, model_options=patience(server), batch=BATCH)
    return run(dataset, "last-k", PRICED, options=structs.replace(options, **changes), folders=folders)


def by_question(folders: Folders, run_id: str = "r") -> dict[str, dict[str, Any]]:
    """The answers that count, without what may differ."""
    kept = (one for one in answers(folders, run_id) if one["status"] == "ok")
    return {one["question_id"]: {k: v for k, v in one.items() if k not in _MAY_DIFFER} for one in kept}


def as_text(value: object) -> str:
    """One spelling for one JSON value."""
    return json.dumps(value, sort_keys=True)
