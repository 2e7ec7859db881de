"""By which models the requests of memory systems from outside are answered, and who pays."""

from pathlib import Path

from msgspec import Struct

from longmemeval.core.defaults import CONCURRENCY
from longmemeval.llm.costs.receipts import Receipts
from longmemeval.llm.costs.spending import Account
from longmemeval.llm.options import ModelOptions


class ModelAccess(Struct, frozen=True):
    """What is lent to somebody else's memory: models by name, caches, and an account."""

    chat_model: str | None = None
    """Answers requests for chat; None: they are refused."""
    embedder: str = "hashing"
    """Answers requests for vectors."""
    options: ModelOptions = ModelOptions()
    cache_dir: Path | None = None
    """Where the caches are; None: nothing is remembered."""
    account: Account | None = None
    """Where calls are written down, and what limits them."""
    receipts: Receipts | None = None
    """Of paid calls of the chat model; in the cache until a journal has them."""
    embedding_receipts: Receipts | None = None
    concurrency: int = CONCURRENCY
    """Calls under way at one time."""
    calls_file: Path | None = None
    """Where searches write down their calls."""
