"""Models that answer the requests of external memory systems, and the account that pays."""

from pathlib import Path

from msgspec import Struct

from longmemeval.core.defaults import CONCURRENCY
from longmemeval.llm.costs.receipts import Receipts
from longmemeval.llm.costs.spending import Account
from longmemeval.llm.options import ModelOptions


class ModelAccess(Struct, frozen=True):
    """Access lent to an external memory system: models by name, caches, and an account."""

    chat_model: str | None = None
    """The model that answers chat requests; None: they are refused."""
    embedder: str = "hashing"
    """The embedder that answers embedding requests."""
    options: ModelOptions = ModelOptions()
    cache_dir: Path | None = None
    """Folder of the caches; None: nothing is cached."""
    account: Account | None = None
    """Account that records calls and limits their cost."""
    receipts: Receipts | None = None
    """Receipts of paid calls; kept in the caches until a journal has them."""
    concurrency: int = CONCURRENCY
    """Maximum number of concurrent calls."""
    calls_file: Path | None = None
    """File in which searches record their calls."""
