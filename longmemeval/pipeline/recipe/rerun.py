"""`run --recipe FILE`: a run that is made again."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, structs

from longmemeval.benchmarks.catalogue import catalogue
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.benchmarks.specs import benchmark_of
from longmemeval.core.text_files import UnreadableError, load_yaml, read_text
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, FixtureError, HarnessError, nearest
from longmemeval.llm.options import ModelOptions
from longmemeval.memory.configuration import MemoryConfiguration, configuration_of
from longmemeval.pipeline.batches.batches import BatchOptions
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.pipeline.recipe.document import FORMAT, Recipe, changes, data_changes, recipe_of, selection_of
from longmemeval.pipeline.run.run import RunOptions, asked_of
from longmemeval.reading.reader import READING_METHODS, ReadingConfiguration, ReadingMethod, reading_configuration
from longmemeval.reading.templates import NOTE_FIELDS, READER_FIELDS, checked_template
from longmemeval.results.manifest import RunManifest, dataset_record
from longmemeval.results.selection import Selection
from longmemeval.results.settings import AnswerSettings, settings_of
from longmemeval.settings import Folders
from longmemeval.storage.fixture import meta_of

_TEMPLATES = {"template": READER_FIELDS, "options_template": READER_FIELDS, "note_template": NOTE_FIELDS}

_OF_PLACES = ("--dataset", "--memory", "--name", "--data-dir", "--prepared-dir")
"""Options of the recipe's `prepare` that are those of this command here."""


class AskedRun(Struct, frozen=True):
    """What `run` takes."""

    dataset: Dataset
    configuration: MemoryConfiguration
    model: str
    selection: Selection
    options: RunOptions


def recipe_run(
    file: Path, where: Folders, *, strict: bool, tell: Callable[[str], None], dataset: str | None = None
) -> AskedRun:
    """The run that a recipe tells of.

    Args:
        file: the recipe.
        where: the folders.
        strict: refuse to begin where anything differs.
        tell: gets what differs, a line each; before the run begins, and where it cannot.
        dataset: where the data is, if not at the recipe's path.

    Raises:
        HarnessError: the file is no recipe, the data is missing, or it differs and `strict`.
    """
    recipe = read_recipe(file)
    settings = _settings(recipe, file)
    data = _dataset(recipe, dataset, where)
    if early := data_changes(recipe, dataset_record(data)):
        _differ(early, file, strict=strict, tell=tell)

    def check(planned: RunManifest) -> None:
        late = [line for line in changes(recipe, recipe_of(planned)) if line not in early]
        if late:
            _differ(late, file, strict=strict, tell=tell)

    protocol, answering = settings.official_protocol, benchmark_of(data).answering
    texts = answering.recorded_texts(protocol) if answering and answering.recorded_texts and protocol else None
    options = RunOptions(
        reading=_reading(settings, recipe.templates, file),
        prepared=settings.preparation_name or "default",
        model_options=ModelOptions(api_base=settings.model.api_base or None),
        query_model=None if settings.query_model is UNSET else settings.query_model.spec,
        protocol="official" if protocol else "standard",
        protocol_texts=texts,
        seed=protocol.get("seed", selection_of(recipe).seed),
        repeat=1 if settings.repeat is UNSET else settings.repeat,
        batch=BatchOptions() if settings.batch is True else None,
        save_prompts=settings.save_prompts is not False,
        check=check,
        tell=tell,
    )
    memory = settings.memory
    configuration = configuration_of(memory.preset, memory.parameters, name=memory.name, where=str(file))
    asked = AskedRun(data, configuration, settings.model.spec, selection_of(recipe), options)
    _check_prepared(asked, recipe, where)
    return asked


def read_recipe(file: Path) -> Recipe:
    """The recipe in a file.

    Raises:
        HarnessError: it cannot be read, is no recipe, or is of a newer format.
    """
    fix = "Write it with `longmemeval recipe RUN --output FILE`"
    try:
        document: Any = load_yaml(read_text(file))
        found = document.get("format") if isinstance(document, dict) else None
        if isinstance(found, int) and found > FORMAT:
            raise HarnessError(f"The recipe has format {found}, this version understands {FORMAT}", where=str(file))
        recipe = msgspec.convert(document, Recipe)
        selection_of(recipe)
    except OSError as error:
        raise HarnessError(f"The recipe cannot be read: {error.strerror}", where=str(file), fix=fix) from error
    except (UnreadableError, msgspec.ValidationError) as error:
        raise HarnessError(f"The file is no recipe: {error}", where=str(file), fix=fix) from error
    return recipe


def _settings(recipe: Recipe, file: Path) -> AnswerSettings:
    try:
        return msgspec.convert(msgspec.to_builtins(settings_of("run", recipe.settings)), AnswerSettings)
    except msgspec.ValidationError as error:
        raise HarnessError(f"The settings of the recipe are damaged: {error}", where=str(file)) from error


def _dataset(recipe: Recipe, override: str | None, where: Folders) -> Dataset:
    """The data, where it was or under its name."""
    name, path = recipe.dataset["name"], Path(recipe.dataset["path"])
    if override is None and not path.exists() and name not in catalogue():
        raise DataError(f"The data set '{name}' of the recipe is not here", where=str(path), fix="Name it: --dataset")
    return load_dataset(override or (path if path.exists() else name), where.data_dir)


def _check_prepared(asked: AskedRun, recipe: Recipe, where: Folders) -> None:
    """Refuse to begin without the fixtures, with the command that makes them as those of the recipe were made."""
    fixtures = PreparedFixtures(asked.dataset, asked.options.prepared, where, asked.configuration)
    questions, _ = asked_of(asked.dataset, asked.configuration, asked.selection, asked.options)
    haystacks = dict.fromkeys(question.haystack_id for question in questions)
    missing = [one for one in haystacks if meta_of(fixtures.folder(one), one) is None]
    if missing:
        words = iter(shlex.split(recipe.preparation.prepare)[2:])
        pairs = [(option, next(words, "")) for option in words]
        kept = [word for pair in pairs if pair[0] not in _OF_PLACES for word in pair]
        raise FixtureError(
            f"{len(missing):,} of the {len(haystacks):,} haystacks that the recipe reads are not prepared",
            where=str(fixtures.folder(missing[0])),
            fix=f"Run `{fixtures.prepare_with(asked.configuration.preset, *kept)}`",
        )


def _differ(lines: list[str], file: Path, *, strict: bool, tell: Callable[[str], None]) -> None:
    for line in lines:
        tell(f"Differs from the recipe: {line}")
    if strict:
        count = "1 thing differs" if len(lines) == 1 else f"{len(lines)} things differ"
        raise HarnessError(
            f"The run does not begin: {count} from the recipe",
            where=str(file),
            fix="Restore what it tells of, or leave out --strict",
        )


def _reading(settings: AnswerSettings, texts: dict[str, str], file: Path) -> ReadingConfiguration:
    """How the model is asked; a prompt whose text is nowhere is the shipped one, and its hash differs."""
    known = settings.reading
    if known.method not in READING_METHODS:
        raise HarnessError(
            f"There is no reading '{known.method}'", where=str(file), fix=nearest(known.method, READING_METHODS)
        )
    given: dict[str, Any] = {
        "history_format": known.history_format,
        "on_overflow": known.on_overflow,
        "context_window": known.context_window,
        "max_tokens": settings.model.max_tokens,
        "abstain_below": settings.abstain_below,
    }
    given = {name: value for name, value in given.items() if value is not UNSET}
    reading = reading_configuration(msgspec.convert(known.method, ReadingMethod), **given)
    own = {
        name: checked_template(texts[sha256], fields, f"{file}, templates")
        for name, fields in _TEMPLATES.items()
        if (sha256 := getattr(known, name)) in texts
    }
    return structs.replace(reading, **own)
