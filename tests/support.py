"""What tests of whole commands share."""

import json
import os
import shlex
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

from hypothesis import settings

from tests.forking import start_forked

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "longmemeval"]


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without keys, endpoints and folders of whoever runs the tests."""
    unwanted = ("LONGMEMEVAL_", "OPENAI_", "ANTHROPIC_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return kept | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"} | extra


def longmemeval(
    *arguments: str | Path, cwd: Path, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would; the exit code must be `code`.

    The process is forked from one that has imported the libraries, where its environment changes nothing in how they
    are imported.
    """
    read_late = ("_API_KEY", "_API_BASE", "_BASE_URL", "_MEMORY_TIMEOUTS", "PYTHONPATH", "COLUMNS")
    if any(not name.endswith(read_late) for name in environment) or _hides_modules(environment.get("PYTHONPATH", "")):
        return longmemeval_anew(*arguments, cwd=cwd, code=code, **environment)
    process = start_forked(list(map(str, arguments)), cwd, clean_environment(**environment), quickly=True)
    printed = process.communicate()
    return _checked(subprocess.CompletedProcess(arguments, process.returncode or 0, *printed), code)


def next_steps(printed: str) -> list[list[str]]:
    """The command lines that are printed under `Next steps:`, as words without `longmemeval`."""
    below = printed.partition("Next steps:\n")[2].splitlines()
    lines = takewhile(lambda line: line.startswith("  "), below)
    return [shlex.split(line, comments=True)[1:] for line in lines]


def _hides_modules(path: str) -> bool:
    """Whether a folder of a PYTHONPATH, the project's apart, has modules in the place of others, which are imported."""
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder and Path(folder) != ROOT]
    files = [file for folder in folders for file in (*folder.glob("*.py"), *folder.glob("*/__init__.py"))]
    names = {file.parent.name if file.name == "__init__.py" else file.stem for file in files}
    return any(name in ("sitecustomize", "usercustomize") or find_spec(name) for name in names)


def longmemeval_anew(
    *arguments: str | Path, cwd: Path, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`longmemeval` in a new interpreter, for what that alone can show."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return _checked(done, code)


def _checked(done: subprocess.CompletedProcess[str], code: int) -> subprocess.CompletedProcess[str]:
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def examples(number: int) -> int:
    """Return how many examples a property test tries: `number` with `--thorough`, at most as many as usual without."""
    return fewer(number, min(number, settings().max_examples))


def fewer(number: int, few: int) -> int:
    """Return the size of a test that needs it for what it claims: `number` with `--thorough`, `few` without."""
    return number if settings.get_current_profile_name() == "thorough" else few


def peak_memory(work: Callable[[], object]) -> int:
    """Bytes that `work` allocates at most at one time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times as much of the processor `work` takes at four times the size: 4 in proportion, 16 squared.

    The middle of several pairs, each taken at once: a machine that becomes slower for a while spoils few of them.
    """

    def seconds(size: int) -> float:
        started = time.process_time()
        work(size)
        return time.process_time() - started

    work(size)
    pairs = list[tuple[float, float]]()
    while len(pairs) < 5 or (sum(map(sum, pairs)) < 0.2 and len(pairs) < 30):
        pairs.append((seconds(4 * size), seconds(size)))
    return statistics.median(large / small for large, small in pairs)


IN_PROPORTION = 8
"""What `growth` stays below, of work in proportion to its size."""


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSONL file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def tree(folder: Path, *, without: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Relative path -> bytes of every visible file below `folder`."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in without and not any(part.startswith(".") for part in path.parts)
    }


def record(question_id: str = "q1", **changes: object) -> dict[str, Any]:
    """One small record in the shape of a LongMemEval file."""
    base: dict[str, Any] = {
        "question_id": question_id,
        "question_type": "single-session-user",
        "question": "What colour is my bicycle?",
        "question_date": "2023/05/30 (Tue) 23:40",
        "answer": "green",
        "answer_session_ids": ["answer_1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00", "2023/05/22 (Mon) 09:15"],
        "haystack_session_ids": ["filler_1", "answer_1", "filler_2"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "How do I boil an egg?"},
                {"role": "assistant", "content": "Seven minutes in boiling water."},
            ],
            [
                {"role": "user", "content": "I painted my bicycle green today. Any tips?", "has_answer": True},
                {"role": "assistant", "content": "Let it dry for a day.", "has_answer": False},
            ],
            [
                {"role": "user", "content": "Name three rivers in France."},
                {"role": "assistant", "content": "The Seine, the Loire and the Rhone."},
            ],
        ],
    }
    return base | changes


def write_dataset(path: Path, *records: dict[str, Any]) -> Path:
    """Write records as a data set file."""
    path.write_text(json.dumps(list(records)))
    return path
