"""Build command lines for the next step, ready to copy."""

import os
import shlex
import sys
from typing import TYPE_CHECKING

from longmemeval.core.installation import REPORT, VIEW, missing
from longmemeval.core.secrets.parameters import public_words, words_without_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from longmemeval.cli.options import Places, PreparedPlaces
    from longmemeval.cli.output import Step
    from longmemeval.dataset import Dataset
    from longmemeval.memory.configuration import MemoryConfiguration
    from longmemeval.results.manifest import RunManifest


def command_line(*words: str, places: "PreparedPlaces | None" = None) -> str:
    """Return a quoted `longmemeval` command line; folders given to this command are repeated."""
    return shlex.join(["longmemeval", *public_words(words), *(places.words() if places else [])])


def option_words(option: str, values: "Iterable[object]") -> list[str]:
    """Return the words of an option that is given once for each value."""
    return [word for value in values for word in (option, str(value))]


def grade(
    run: str, dataset: "Dataset", model: str, places: "PreparedPlaces", *, api_base: str | None = None
) -> "list[Step]":
    """Return the steps that grade a run.

    The judge is the benchmark's own, at the address that was given for the model. It is offline if the answering model
    is, or if the benchmark's own has no key here or another provider's interface than the address: no other service is
    called without being asked for.

    Args:
        run: id of the run, or a pattern.
        dataset: the data, whose benchmark's judge grades by default; in other languages than English a chat model does.
        model: the answering model.
        api_base: the address that was given for the answering model.
    """
    from longmemeval.benchmarks.catalogue import benchmark_of
    from longmemeval.benchmarks.registry import foreign_part
    from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
    from longmemeval.llm.options import is_offline

    own = benchmark_of(dataset).default_judge
    provider = own.split("/")[0]
    offline, does = False, f"grade with the benchmark's own judge, {own}"
    if not is_offline(own):
        keyless = not os.environ.get(key := f"{provider.upper()}_API_KEY")
        offline = is_offline(model) or (model.split("/")[0] != provider if api_base else keyless)
        if api_base and not offline:
            does += ", at the same address"
        elif offline:
            does = "grade offline" + (f"; the benchmark's own judge, {own}, needs {key}" if keyless else "")
    judge = ["--judge", LEXICAL_JUDGE] if offline else ["--api-base", api_base] if api_base else []
    if (offline or own == LEXICAL_JUDGE) and foreign_part(dataset):
        judge, does = ["--judge", "MODEL"], "grade with a chat model: offline judges read English alone"
    return [(command_line("evaluate", run, *judge, places=places), does)]


def check(spec: str, configuration: "MemoryConfiguration", words: "Iterable[str]") -> "list[Step]":
    """Return the step that shows why a memory that is a service or a class fails; none for other memories.

    Args:
        spec: the memory as it was named.
        words: options with its settings.
    """
    from longmemeval.memory.external.contract_check import service_part_of

    if not service_part_of(configuration):
        return []
    return [(command_line("memory", "check", spec, *words), "show what fails, on two small histories")]


def after_grading(runs: "Sequence[str]", manifest: "RunManifest", places: "Places") -> "list[Step]":
    """Return the steps after runs were graded: compare several, else show the one as a page.

    Args:
        runs: the runs as they were named, ids or patterns.
        manifest: that of the last one.
    """
    from longmemeval.results.compared import has_graded_alike
    from longmemeval.results.listing import is_pattern

    if len(runs) > 1 or any(map(is_pattern, runs)):
        return [(command_line("compare", *runs, places=places), "compare them")]
    others = has_graded_alike(manifest, places.folders().results_dir)
    return [
        *([(command_line("compare", places=places), "compare it with runs on the same questions")] if others else []),
        *page(*runs, places=places),
    ]


def page(*words: str, places: "Places") -> "list[Step]":
    """Return the step that writes the page of runs; none where the extra `report` is not installed."""
    step = command_line("report", *words, places=places), "one page with every question"
    return [] if missing(REPORT) else [step]


def view(places: "Places") -> "list[Step]":
    """Return the step that shows all runs in a browser; none where the extra `view` is not installed."""
    return [] if missing(VIEW) else [(command_line("view", places=places), "all runs in a browser; Ctrl-C ends it")]


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
