"""Parts that are stored compressed, as `<part>.json.zst`. Hashes are always of what they hold uncompressed."""

from types import ModuleType

from longmemeval.errors import FixtureError

SUFFIX = ".zst"
_LEVEL = 3


def compressed(data: bytes) -> bytes:
    """`data` as one zstd frame that says how long it is.

    Raises:
        FixtureError: the package for it is not installed.
    """
    return bytes(zstandard().ZstdCompressor(level=_LEVEL).compress(data))


def decompressed(data: bytes) -> bytes | None:
    """What `compressed` was given; None where `data` is damaged.

    Raises:
        FixtureError: the package for it is not installed.
    """
    library = zstandard()
    try:
        return bytes(library.ZstdDecompressor().decompress(data))
    except library.ZstdError:
        return None


def zstandard() -> ModuleType:
    """The package that compresses.

    Raises:
        FixtureError: it is not installed.
    """
    try:
        import zstandard as library
    except ImportError as error:
        raise FixtureError(
            "Compressed parts need the package zstandard, which is not installed",
            fix="Install it with `pip install 'longmemeval[zstd]'`",
        ) from error
    return library
