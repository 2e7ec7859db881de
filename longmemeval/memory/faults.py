"""Attribute errors raised by other people's memory systems to them, whatever the exception."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longmemeval.core.interruption import is_interrupt
from longmemeval.errors import HarnessError, RecallError
from longmemeval.memory.protocol import MemorySystem
from longmemeval.records import Question, Recall
from longmemeval.storage.fixture import Fixture

_PACKAGE = __name__.partition(".")[0]


@contextmanager
def errors_of(memory: object, failure: type[HarnessError] = RecallError) -> Iterator[None]:
    """Turn what a memory's code raises into a `failure`, usually a `RecallError` that fails one question.

    Errors of memories of this package pass unchanged, as bugs of ours; so do a `HarnessError` and an interrupt.

    Args:
        memory: the object whose methods are called, or the callable that builds it.
        failure: the class of error to raise.
    """
    try:
        yield
    except HarnessError:
        raise
    except BaseException as error:
        if is_interrupt(error) or (memory.__module__.partition(".")[0] == _PACKAGE and isinstance(error, Exception)):
            raise
        raise failure(f"The memory failed: {described(error)}", where=memory.__module__) from error


async def recall_of(memory: MemorySystem, question: Question, fixture: Fixture) -> Recall:
    """Return what `memory` recalls.

    Raises:
        RecallError: it failed at this question.
    """
    with errors_of(memory):
        return await memory.recall(question, fixture)


def described(error: BaseException) -> str:
    """Describe an error: the line of code that raised it, its type and its text."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
    return f"{where}{type(error).__name__}" + (f": {error}" if str(error) else "")
