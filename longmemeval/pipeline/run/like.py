"""`run --like RUN`: repeat a run from its `run.json`, which holds everything that determines its answers."""

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from longmemeval.benchmarks.catalogue import benchmark_of, catalogue
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.files import sha256_bytes
from longmemeval.core.options import from_record
from longmemeval.core.text.words import differences
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, FixtureError, HarnessError, nearest
from longmemeval.llm.options import ModelOptions, generation_of
from longmemeval.memory.configuration import configuration_of
from longmemeval.pipeline.options import BatchOptions
from longmemeval.pipeline.run.plan import RunOptions, RunPlan
from longmemeval.reading.configuration import ReadingConfiguration, configured
from longmemeval.reading.options import READING_METHODS, ReadingOptions
from longmemeval.reading.templates import NOTE_FIELDS, READER_FIELDS, checked_template
from longmemeval.results.manifest import RunManifest, dataset_record, manifest_in, read_manifest, run_folder
from longmemeval.results.settings import AnswerSettings
from longmemeval.settings import Folders
from longmemeval.storage.fixture import meta_of

_TEMPLATES = {"template": READER_FIELDS, "options_template": READER_FIELDS, "note_template": NOTE_FIELDS}
_HASH = re.compile("[0-9a-f]{64}")
_HASH_CHARACTERS = 12
"""Number of characters of a hash that a difference shows."""
_LOCATION_OPTIONS = ("--dataset", "--memory", "--prepared", "--name", "--data-dir", "--prepared-dir")
"""Options of the recorded `prepare` that this command replaces with its own."""


def run_like(
    source: str, folders: Folders, *, strict: bool, tell: Callable[[str], None], dataset: str | None = None
) -> RunPlan:
    """Return the run that repeats another one.

    Args:
        source: the id of a run here, or a `run.json` from elsewhere.
        strict: refuse to start if anything differs.
        tell: receives each difference, before the run starts, and also if it cannot start.
        dataset: location of the data, if not at the recorded path.

    Raises:
        HarnessError: there is no such run, it has no answers of this harness, the data is missing, or it differs and
            `strict`.
    """
    manifest = _manifest(source, folders)
    settings = manifest.settings
    if not isinstance(settings, AnswerSettings):
        what = "rankings" if manifest.kind == "retrieval" else "imported answers"
        raise HarnessError(
            f"Run '{manifest.run_id}' holds {what}: only a run with answers of its own can be repeated",
            fix="Name another run",
        )
    data = _dataset(manifest, dataset, folders)
    early = _data_changes(manifest, dataset_record(data))
    if early:
        _report(early, source, strict=strict, tell=tell)

    def check(planned: RunManifest) -> None:
        if late := [line for line in changes(manifest, planned) if line not in early]:
            _report(late, source, strict=strict, tell=tell)

    protocol, answering = settings.official_protocol, benchmark_of(data).answering
    texts = answering.recorded_texts(protocol) if answering and answering.recorded_texts and protocol else None
    options = RunOptions(
        reading=_reading(settings, manifest.templates, source),
        prepared=settings.preparation or "default",
        model_options=ModelOptions(settings.model.api_base or None, **generation_of(settings.model.options or {})),
        query_model=settings.query_model.spec if settings.query_model else None,
        protocol="official" if protocol else "standard",
        protocol_texts=texts,
        seed=protocol.get("seed", manifest.selection.seed),
        repeat=settings.repeat,
        batch=BatchOptions() if settings.batch else None,
        save_prompts=settings.save_prompts is not False,
        check=check,
        tell=tell,
    )
    memory = settings.memory
    configuration = configuration_of(memory.preset, memory.parameters, name=memory.name, where=source, recorded=True)
    planned = RunPlan(
        data=data,
        configuration=configuration,
        model=settings.model.spec,
        selection=manifest.selection,
        options=options,
        folders=folders,
    )
    planned = _with_temperature(planned, settings.model.temperature)
    _check_prepared(planned, manifest)
    return planned


def _with_temperature(plan: RunPlan, temperature: float | None) -> RunPlan:
    """Return the plan with the temperature of the original run, if the reading has another."""
    if temperature is None or temperature == plan.reading.temperature:
        return plan
    options = structs.replace(plan.options.model_options, temperature=float(temperature))
    return plan.with_options(model_options=options)


def changes(before: RunManifest, now: RunManifest) -> list[str]:
    """Return the differences of a run made like another, each like `environment.python: there 3.11.7, here 3.12.1`."""
    return differences(_compared(before), _compared(now), template="there {old}, here {new}")


def _manifest(source: str, folders: Folders) -> RunManifest:
    file = Path(source)
    if file.suffix == ".json" or file.is_file():
        try:
            return manifest_in(file)
        except OSError as error:
            raise HarnessError(f"The run cannot be read: {error.strerror}", where=source) from error
    return read_manifest(run_folder(folders.results_dir, source))


def _data_changes(manifest: RunManifest, dataset: Mapping[str, str]) -> list[str]:
    """Return the differences of the datasets, which are known before anything is planned."""
    identities = [
        {f"dataset.{key}": record[key] for key in ("sha256", "content_sha256")}
        for record in (manifest.dataset, dataset)
    ]
    return differences(_short(identities[0]), _short(identities[1]), template="there {old}, here {new}")


def _compared(manifest: RunManifest) -> dict[str, Any]:
    """Return the values that must be equal; paths and the wording of commands need not be."""
    hashes: dict[str, dict[str, str]] = {}
    for haystack_id, parts in manifest.fixtures.items():
        for part, sha256 in parts.items():
            hashes.setdefault(part, {})[haystack_id] = sha256
    ids = manifest.question_ids
    return _short(
        {
            "dataset": {key: manifest.dataset[key] for key in ("sha256", "content_sha256")},
            "questions": {"count": len(ids), "ids_sha256": _hash(ids)},
            "settings": manifest.settings.comparable,
            "preparation": {part: _hash(digests) for part, digests in hashes.items()},
            "environment": {key: manifest.environment.get(key) for key in ("packages", "python", "git")},
        }
    )


def _short(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with shortened hashes, which makes lines easier to read."""
    return {
        key: _short(value)
        if isinstance(value, Mapping)
        else f"{value[:_HASH_CHARACTERS]}…"
        if isinstance(value, str) and _HASH.fullmatch(value)
        else value
        for key, value in values.items()
    }


def _hash(value: object) -> str:
    return sha256_bytes(msgspec.json.encode(value, order="sorted"))


def _dataset(manifest: RunManifest, override: str | None, folders: Folders) -> Dataset:
    """Return the data, from its recorded path or by its name."""
    name, path = manifest.dataset["name"], Path(manifest.dataset["path"])
    if override is None and not path.exists() and name not in catalogue():
        raise DataError(
            f"The dataset '{name}' of the run has moved", where=str(path), fix="Name its file: --dataset PATH"
        )
    return load_dataset(override or (path if path.exists() else name), folders.data_dir)


def _check_prepared(planned: RunPlan, manifest: RunManifest) -> None:
    """Refuse to start without the fixtures; the error has the command that makes them as for the original run."""
    fixtures, questions = planned.fixtures, planned.questions
    haystacks = dict.fromkeys(question.haystack_id for question in questions)
    missing = [haystack_id for haystack_id in haystacks if meta_of(fixtures.folder(haystack_id), haystack_id) is None]
    if missing:
        words = iter(shlex.split(manifest.prepare)[2:])
        pairs = [(option, next(words, "")) for option in words]
        options = [word for pair in pairs if pair[0] not in _LOCATION_OPTIONS for word in pair]
        raise FixtureError(
            f"{len(missing):,} of the {len(haystacks):,} haystacks that the run reads are not prepared",
            where=str(fixtures.folder(missing[0])),
            fix=f"Run `{fixtures.prepare_with(planned.configuration.preset, *options)}`",
        )


def _report(lines: list[str], source: str, *, strict: bool, tell: Callable[[str], None]) -> None:
    for line in lines:
        tell(f"Differs from {source}: {line}")
    if strict:
        count = "1 thing differs" if len(lines) == 1 else f"{len(lines)} things differ"
        raise HarnessError(
            f"The run does not start: {count}", where=source, fix="Restore what it names, or leave out --strict"
        )


def _reading(settings: AnswerSettings, texts: dict[str, str], source: str) -> ReadingConfiguration:
    """Return the reading configuration; a prompt without a recorded text is the shipped one, with another hash."""
    known = settings.reading
    if known.method not in READING_METHODS:
        raise HarnessError(
            f"Unknown reading method '{known.method}'", where=source, fix=nearest(known.method, READING_METHODS)
        )
    try:
        options = msgspec.convert(from_record(ReadingOptions, settings.plain, "reading"), ReadingOptions)
    except msgspec.ValidationError as error:
        raise HarnessError(f"The reading of the run cannot be repeated: {error}", where=source) from error
    reading = configured(options)
    own = {
        name: checked_template(texts[sha256], fields, f"{source}, templates")
        for name, fields in _TEMPLATES.items()
        if (sha256 := getattr(known, name)) in texts
    }
    return structs.replace(reading, **own)
