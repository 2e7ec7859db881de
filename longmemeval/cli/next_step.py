"""Build command lines for the next step, ready to copy."""

import os
import shlex
import sys
from typing import TYPE_CHECKING

from longmemeval.core.secrets.parameters import public_words, words_without_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from longmemeval.cli.options import PreparedPlaces
    from longmemeval.dataset import Dataset


def command_line(*words: str, places: "PreparedPlaces | None" = None) -> str:
    """Return a quoted `longmemeval` command line; folders given to this command are repeated."""
    return shlex.join(["longmemeval", *public_words(words), *(places.words() if places else [])])


def option_words(option: str, values: "Iterable[object]") -> list[str]:
    """Return the words of an option that is given once for each value."""
    return [word for value in values for word in (option, str(value))]


def grade(run: str, dataset: "Dataset", model: str, places: "PreparedPlaces", *, elsewhere: bool = False) -> str:
    """Return the command line that grades a run.

    The judge is offline if the answering model is, if the benchmark's own judge has no key here, or if the model was
    called at an address of the user's: no other service is called without being asked for.

    Args:
        run: id of the run, or a pattern.
        dataset: the data, whose benchmark's judge grades by default; in other languages than English a chat model does.
        model: the answering model.
        elsewhere: True if `--api-base` was given.
    """
    from longmemeval.benchmarks.catalogue import benchmark_of
    from longmemeval.benchmarks.registry import foreign_part
    from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
    from longmemeval.llm.options import is_offline

    default_judge = benchmark_of(dataset).default_judge
    keyless = not os.environ.get(f"{default_judge.split('/')[0].upper()}_API_KEY")
    offline = not is_offline(default_judge) and (is_offline(model) or keyless or elsewhere)
    judge = ["--judge", LEXICAL_JUDGE] if offline else []
    if (offline or default_judge == LEXICAL_JUDGE) and foreign_part(dataset):
        judge = ["--judge", "MODEL"]
    return command_line("evaluate", run, *judge, places=places)


def resume(run_id: str) -> str:
    """Return the command line that was given, now continuing this run."""
    return command_line(*words_without_options(sys.argv[1:], "--run-id", "--resume"), "--resume", run_id)


def same_again() -> str:
    """Return the command line that was given."""
    return command_line(*sys.argv[1:])


def same_with(argument: str) -> str:
    """Return the command line that was given, with an argument after the verb."""
    verb = next(place for place, word in enumerate(sys.argv[1:], 1) if not word.startswith("-"))
    return command_line(*sys.argv[1 : verb + 1], argument, *sys.argv[verb + 1 :])


def repeat_again(run_id: str) -> str:
    """Return the command line that was given with --repeat, now naming the runs it made; `run_id` is one of them."""
    return command_line(*words_without_options(sys.argv[1:], "--run-id"), "--run-id", run_id.rpartition("-r")[0])
