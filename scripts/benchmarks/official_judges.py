"""BEAM and LoCoMo-Plus under four memories, graded by a judge over HTTP that checks every request byte for byte.

    PYTHONPATH=. python scripts/benchmarks/official_judges.py [--items 401]

The real data is that of the tests; the official words are those beside it. Answers are made over HTTP by a model that
repeats lines of its prompt, so scores say nothing about memories: each is held against a score that is computed apart
from the harness.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.results.selection import Selection
from tests.benchmarks.beam import official as beam
from tests.benchmarks.checking import graded
from tests.benchmarks.locomo_plus import official as plus
from tests.conftest import real_file
from tests.pipeline.helpers import folders_in


def main() -> None:
    """Both benchmarks; ends with 1 where anything is not as expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=401, help="of LoCoMo-Plus, the first ones")
    items = parser.parse_args().items
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folders = folders_in(Path(name))
        os.environ |= {"OPENAI_API_KEY": "sk-not-a-real-key-0123"}
        beam.clone(folders.data_dir / "beam", beam.official_texts())
        plus.prompt_file(folders.data_dir / "locomo_plus_prompt.py", plus.official_texts())
        chats, cues = real_file("beam/chats/100K"), real_file("locomo_plus.json")
        for data, judges, expecting, selection in (
            (chats, beam.JUDGES, beam.expecting(chats, beam.official_texts()), Selection()),
            (cues, plus.JUDGES, plus.expecting(cues, plus.official_texts()), Selection(limit=items)),
        ):
            begun = time.perf_counter()
            found = graded(load_dataset(data), judges, expecting, folders, selection=selection, jobs=2, tell=print)
            requests = ", ".join(f"{count:,} requests to {model}" for model, count in found.requests.items())
            print(f"{requests}; {len(found.wrong)} not as expected; {time.perf_counter() - begun:.0f} s", flush=True)
            print(*found.wrong, sep="\n", end="\n" * bool(found.wrong))
            wrong += len(found.wrong)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
