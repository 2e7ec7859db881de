"""`recipe RUN`: the YAML that makes a run again."""

from typing import Any

import msgspec
import yaml

from longmemeval.core.remote.places import as_given
from longmemeval.core.secrets.redaction import record_without_secrets
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MemoryConfiguration
from longmemeval.pipeline.prepare.access import PreparedFixtures
from longmemeval.pipeline.recipe.document import Recipe, recipe_of
from longmemeval.results.manifest import RECORDED_NAMES, RunManifest, read_manifest, run_folder
from longmemeval.results.run_questions import dataset_of
from longmemeval.results.settings import AnswerSettings
from longmemeval.settings import Folders, folders
from longmemeval.storage.fixture import meta_of

_COMMENTS = {
    "format": "Of this file.",
    "run": "The run it was written for.",
    "dataset": "The data. Its bytes decide: the path is where it was, `run --dataset` names another.",
    "questions": "Which questions: how they were chosen (nothing: all), how many, and the hash of their ids in order.",
    "settings": "All that decides an answer.",
    "preparation": "The fixtures: the command that makes them, and of each part one hash over all haystacks.",
    "environment": "What the run was made with.",
    "settings_sha256": "Of data, questions and settings together; runs that repeat each other share it.",
    "templates": "Prompts that are not shipped, by hash.",
}
_IN_SETTINGS = {
    "memory": "The memory with every parameter; `source` is the code of one from outside, and its hash.",
    "embedder": "Who made the vectors; the fingerprint tells whether a model is the same.",
    "model": "The answering model; no address: its provider's own.",
    "reading": "How the model is asked; prompts by the hashes of their texts.",
    "protocol": "The benchmark's own, where it was followed.",
    "query_model": "The chat model that analysed the questions.",
}


def recipe_text(run: str, *, dataset: str | None = None, where: Folders | None = None) -> str:
    """The recipe of a run as commented YAML.

    Args:
        run: its id.
        dataset: where the data is now, if it has moved.
        where: the folders; None: from the environment.

    Raises:
        HarnessError: there is no such run, it holds no answers of this harness, or its data cannot be found.
    """
    where = where or folders()
    manifest = read_manifest(run_folder(where.results_dir, run))
    settings = manifest.settings
    if not isinstance(settings, AnswerSettings):
        what = "rankings" if manifest.kind == "retrieval" else "imported answers"
        raise HarnessError(f"Run '{run}' holds {what}: only what `run` answered has a recipe", fix="Name another run")
    configuration = MemoryConfiguration.model_validate(msgspec.to_builtins(settings.memory))
    fixtures = PreparedFixtures(dataset_of(manifest, dataset, where), settings.preparation_name, where, configuration)
    prepare = fixtures.prepare_command(next(iter(manifest.fixtures), ""))
    return render(recipe_of(manifest, prepare, _part_recipes(manifest, fixtures)), manifest)


def _part_recipes(manifest: RunManifest, fixtures: PreparedFixtures) -> dict[str, Any]:
    """How the parts were made, by the first of the fixtures, if it still is the one that was read."""
    for haystack_id, hashes in manifest.fixtures.items():
        meta = meta_of(fixtures.folder(haystack_id), haystack_id)
        parts = meta.parts if meta else {}
        # What a part was made of is another in each haystack, and has its own hash here.
        return {
            name: {key: value for key, value in parts[name].recipe.items() if value not in hashes.values()}
            for name, sha256 in hashes.items()
            if name in parts and parts[name].sha256 == sha256
        }
    return {}


def render(recipe: Recipe, manifest: RunManifest) -> str:
    """The YAML, with a comment above each section."""
    lines = [
        f"# Makes run {recipe.run} again: longmemeval run --recipe THIS-FILE [--strict]",
        "# What differs where it is made again is told; with --strict the run does not begin.",
    ]
    if (manifest.environment.get("git") or {}).get("dirty"):
        lines.append("# Its harness had changes that were not committed: the git commit alone does not name its code.")
    sections: dict[str, Any] = msgspec.to_builtins(recipe)
    document = {
        key: value if key == "run" else record_without_secrets(value, RECORDED_NAMES) for key, value in sections.items()
    }
    if not recipe.templates:
        del document["templates"]
    for key, value in document.items():
        lines += ["", f"# {_COMMENTS[key]}"]
        if key != "settings":
            lines.append(_yaml({key: value}))
            continue
        lines.append("settings:")
        for name, setting in value.items():
            lines += [f"  # {_IN_SETTINGS[name]}"] if name in _IN_SETTINGS else []
            lines += [f"  {line}" for line in _yaml({name: setting}).splitlines()]
    return as_given("\n".join(lines) + "\n")


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def _yaml(value: dict[str, Any]) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20)
    return text.rstrip("\n")
