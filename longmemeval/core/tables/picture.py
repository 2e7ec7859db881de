"""A chart for Python users: shown in a notebook, saved as a file."""

from pathlib import Path

from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.errors import HarnessError


class Picture(Struct, frozen=True):
    """One chart of the report as a separate drawing."""

    name: str
    title: str
    svg: str

    def __repr__(self) -> str:
        return f"Picture({self.name!r}: {self.title})"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write the drawing as SVG and return the path of the file.

        Raises:
            HarnessError: the file's ending stands for another format.
        """
        file = Path(path)
        if file.suffix != ".svg":
            raise HarnessError("A chart is saved as SVG", where=str(file), fix=f"Write {file.with_suffix('.svg')}")
        write_atomic(file, self.svg.encode())
        return file
