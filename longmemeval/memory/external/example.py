"""An example of a memory as a file to start from, for `memory init`."""

from importlib import resources
from pathlib import Path

from longmemeval.errors import HarnessError


def write_example(file: Path) -> None:
    """Write an example memory, a class of thirty lines with two methods, as a Python module.

    Raises:
        HarnessError: the name is not that of a module, or the file exists.
    """
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise HarnessError(
            "This is not the name of a Python module", where=str(file), fix="Name a file such as mymem.py"
        )
    if file.exists():
        raise HarnessError("The file already exists", where=str(file), fix="Choose another name")
    file.write_text(resources.files(__package__).joinpath("example.py.txt").read_text())
