from os import PathLike
from typing import IO

from pyarrow import Table

def write_table(table: Table, where: IO[bytes] | str | PathLike[str]) -> None: ...
def read_table(source: IO[bytes] | str | PathLike[str]) -> Table: ...
