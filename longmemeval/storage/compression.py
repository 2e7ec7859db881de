"""Parts stored compressed, as `<part>.json.zst`. Hashes are always of the uncompressed content."""

from types import ModuleType

from longmemeval.errors import FixtureError, needed

SUFFIX = ".zst"
_LEVEL = 3


def compressed(data: bytes) -> bytes:
    """Compress `data` to one zstd frame that records its length.

    Raises:
        FixtureError: zstandard is not installed.
    """
    return bytes(zstandard().ZstdCompressor(level=_LEVEL).compress(data))


def decompressed(data: bytes) -> bytes | None:
    """Return the input of `compressed`; None if `data` is damaged.

    Raises:
        FixtureError: zstandard is not installed.
    """
    library = zstandard()
    try:
        return bytes(library.ZstdDecompressor().decompress(data))
    except library.ZstdError:
        return None


def zstandard() -> ModuleType:
    """Return the compression package.

    Raises:
        FixtureError: zstandard is not installed.
    """
    what = "Compressed parts need the package zstandard, which is not installed"
    with needed(what, "Install it with `pip install 'longmemeval[zstd]'`", kind=FixtureError):
        import zstandard as library
    return library
