"""Threads that decode the same records for the first time."""

import subprocess
import sys

from tests.support import ROOT

# In a process of its own: msgspec crashes the process in which two threads read the fields of one class at once.
DECODES = """
import sys
import threading
import msgspec
from longmemeval.core.executors.protocol import Task
from longmemeval.core.executors.local import Threads

sys.setswitchinterval(1e-6)
CLASSES = []
for number in range(300):
    inner = msgspec.defstruct("Inner", [("a", int), ("b", "list[str]"), ("c", "dict[str, int]")])
    fields = [("x", inner), ("y", list[inner]), ("z", "str | None")]
    CLASSES.append(msgspec.defstruct("Outer", fields))
together = threading.Barrier(3)

def decode(classes):
    for each in classes:
        together.wait(60)
        msgspec.json.decode(b'{"x":{"a":1,"b":[],"c":{}},"y":[{"a":1,"b":["q"],"c":{"k":2}}],"z":"s"}', type=each)
    return len(classes)

done = Threads().map([Task(str(n), decode, CLASSES, 1) for n in range(3)], 3)
print(sorted(each.outcome for each in done))
"""


def test_records_that_several_threads_decode_first() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DECODES], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stdout) == (0, "[300, 300, 300]\n"), done.stderr
