"""Files of data sets that are already in the Hugging Face cache, found by their hash.

The layout is documented (huggingface.co/docs/hub/local-cache): `datasets--OWNER--NAME/blobs/` holds each file once, a
large file under its sha256; `snapshots/REVISION/` holds links to them, or on some systems the files themselves.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from longmemeval.benchmarks.catalogue import Source
from longmemeval.core.files import replacing, sha256_file

_PIECE = 1 << 20


def cache_folder() -> Path:
    """Return the cache's folder, existing or not: `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else in the user's cache."""
    if own := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(own).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("HF_HOME") or f"{caches}/huggingface").expanduser() / "hub"


def cached_copy(source: Source) -> Path | None:
    """Return a file of the cache, from any data set, with the size and hash of the source; None if there is none."""
    # A file that cannot be read is skipped: the download reports what is wrong, if anything is.
    for candidate in _files_of_source_size(cache_folder(), source):
        try:
            if sha256_file(candidate) == source.sha256:
                return candidate
        except OSError:
            continue
    return None


def _files_of_source_size(cache: Path, source: Source) -> Iterator[Path]:
    seen = set()
    for pattern in (f"datasets--*/blobs/{source.sha256}", "datasets--*/blobs/*", "datasets--*/snapshots/**/*"):
        for path in sorted(cache.glob(pattern)):
            real = path.resolve()
            if real not in seen and real.is_file() and real.stat().st_size == source.bytes:
                seen.add(real)
                yield path


def copy_cached(
    cached: Path, path: Path, source: Source, on_progress: Callable[[int, int], None] | None = None
) -> None:
    """Copy a file of the cache that `cached_copy` found to `path`, completely or not at all.

    Raises:
        OSError: the file cannot be read, or `path` cannot be written.
    """
    copied = 0
    with cached.open("rb") as old, replacing(path) as new:
        while piece := old.read(_PIECE):
            new.write(piece)
            copied += len(piece)
            if on_progress:
                on_progress(copied, source.bytes)
