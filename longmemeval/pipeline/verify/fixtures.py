"""Check the fixtures that a run read: their recorded hashes, and what the data give when they are made again."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from longmemeval.core.text.figures import listed
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MEMORIES, known_parts
from longmemeval.pipeline.verify.remake import Remaker
from longmemeval.records import FixtureMeta
from longmemeval.results.lines import recorded_bytes
from longmemeval.results.manifest import FORMAT, RunManifest
from longmemeval.results.preparation import parts_read
from longmemeval.results.settings import ImportedSettings
from longmemeval.storage.fixture import Fixture, fixture_folder, meta_of, size_of_part
from longmemeval.storage.parts import Part


class Findings:
    """Findings on many haystacks, each text once with the first place and the number of others."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = defaultdict(list)

    def add(self, text: str, place: str) -> None:
        """Note a finding at one place."""
        self._places[text].append(place)

    def problems(self) -> Iterator[str]:
        """Yield each as a problem that begins with its place."""
        for text, places in self._places.items():
            yield f"{listed(places, 1)}: {text}"

    def gaps(self, total: int) -> Iterator[str]:
        """Yield each with the number of its haystacks out of `total`."""
        for text, places in self._places.items():
            what, _, why = text.partition(": ")
            yield f"{what} of {len(places):,} of {total:,} haystacks: {why}"


class KnownParts(NamedTuple):
    """What the user knows besides the registered memories."""

    parts: Mapping[str, Part[Any]]
    presets: Collection[str]
    """The memories that the user named; code that only a run names is not loaded."""


class ReadFixtures:
    """The checks of the fixtures that one run read.

    Args:
        data: the data that the run answered.
        prepared_dir: the folder of preparations.
        given: memories that are not registered.
        remaker: makes their parts again.
    """

    def __init__(
        self, manifest: RunManifest, data: Dataset, prepared_dir: Path, given: KnownParts, remaker: Remaker
    ) -> None:
        self._manifest, self._data, self._prepared, self._remaker = manifest, data, prepared_dir, remaker
        memory, known = manifest.settings.memory, dict(given.parts)
        self._read: dict[str, Part[Any]] | None = None
        if memory and (memory.preset in MEMORIES or memory.preset in given.presets):
            self._read = parts_read(manifest)
            with suppress(HarnessError):
                known = MEMORIES.get(memory.preset).all_parts() | known
        elif memory:
            known = known_parts() | known
        self._known = known | (self._read or {})
        self._problems, self._gaps, self._left = Findings(), Findings(), dict[str, None]()

    def outcomes(self) -> Iterator[str | None]:
        """Yield one outcome per check: None, or the problem."""
        recorded = self._manifest.fixtures
        if isinstance(self._manifest.settings, ImportedSettings):
            return
        asked = set(self._manifest.question_ids)
        haystacks = {question.haystack_id for question in self._data.questions() if question.question_id in asked}
        from_data = self._manifest.kind == "retrieval" and self._manifest.settings.protocol == "official"
        required = set() if from_data else {part.name for part in (self._read or {}).values() if not part.derived}
        lacking = sorted({part for name in haystacks for part in required - recorded.get(name, {}).keys()})
        yield (
            f"run.json: has no hashes of all fixtures that the memory read ({', '.join(lacking)})" if lacking else None
        )
        drawn = self._remaker.drawn(recorded)
        for haystack_id in recorded:
            yield from self._check(haystack_id, drawn)
        yield from self._problems.problems()

    @property
    def not_checked(self) -> Iterator[str]:
        """What `outcomes` left unchecked, and why."""
        total = len(self._manifest.fixtures)
        if self._read is None and not isinstance(self._manifest.settings, ImportedSettings):
            name = self._manifest.settings.memory_name
            yield f"whether run.json has the hashes of all parts: '{name}' is not known here; name it with --memory"
        yield from self._gaps.gaps(total)
        if self._left:
            drawn = len(self._remaker.drawn(self._manifest.fixtures))
            parts = f"part{'s' if len(self._left) > 1 else ''} {', '.join(self._left)}"
            yield (
                f"{parts} of {total - drawn:,} of {total:,} haystacks: not in the sample of {drawn} "
                f"(--seed {self._remaker.seed}). `longmemeval verify {self._preparation}` checks all"
            )

    @property
    def _preparation(self) -> str:
        return f"{self._manifest.dataset['name']}/{self._manifest.settings.preparation}"

    def _check(self, haystack_id: str, drawn: set[str]) -> Iterator[None]:
        """Check the parts of one haystack; yield None for each that is as recorded and as the data give."""
        recorded = self._manifest.fixtures[haystack_id]
        folder = fixture_folder(
            self._prepared, self._manifest.dataset["name"], self._manifest.settings.preparation, haystack_id
        )
        place = f"{self._preparation}/{haystack_id}"
        meta = None
        with suppress(HarnessError):
            meta = meta_of(folder, haystack_id)
        as_read = meta is not None
        for name, sha256 in recorded.items():
            part = self._known.get(name)
            if part is None:
                self._gaps.add(f"part {name}: no installed memory makes it", place)
                continue
            info = part.info(meta) if meta else None
            changed = info is not None and info.sha256 != sha256
            as_read = as_read and info is not None and not changed
            if not part.optionless and haystack_id not in drawn and not changed:
                self._left[name] = None
                continue
            if not self._same(haystack_id, part, sha256, place, Fixture(folder, meta) if meta and info else None):
                continue
            yield None
        if meta and as_read and not self._has_size(folder, meta, haystack_id):
            self._problems.add("run.json: gives another size on disk", place)

    def _same(self, haystack_id: str, part: Part[Any], sha256: str, place: str, fixture: Fixture | None) -> bool:
        """Note what is wrong or unknown about one part; return whether nothing is."""
        remaker, name = self._remaker, f"part {part.name}"
        info = part.info(fixture.meta) if fixture else None
        if fixture is None or info is None:
            made = remaker.from_data(self._data, haystack_id, part, self._manifest.settings.embedder)
            if made.sha256 == sha256:
                return True
            if part.optionless and made.sha256 and self._manifest.format == FORMAT:
                self._problems.add(f"{name}, whose hash run.json has, is not what the data give", place)
            else:
                why = made.reason or "with its default options this version makes other bytes"
                self._gaps.add(f"{name}: its fixture is missing; {why}", place)
            return False
        again = remaker.stored(self._data, fixture, part)
        if again.problem:
            self._problems.add(f"{name} {again.problem}", place)
        elif again.reason:
            self._gaps.add(f"{name}: {again.reason}", place)
        if info.sha256 != sha256:
            text = f"{name}, as the run read it by run.json, is not the one on disk"
            if part.derived:
                self._gaps.add(f"{name}: the run read other bytes than are on disk now", place)
            else:
                self._problems.add(text, place)
            return False
        return not again.problem and not again.reason

    def _has_size(self, folder: Path, meta: FixtureMeta, haystack_id: str) -> bool:
        """Return whether the recorded bytes of the parts are those on disk, as far as both are known."""
        recorded = recorded_bytes(self._manifest.totals).get(haystack_id)
        read = [self._known[name] for name in self._manifest.fixtures[haystack_id] if name in self._known]
        infos = {part: info for part in read if (info := part.info(meta))}
        sizes = [size_of_part(folder, part.stored_name(meta), info) for part, info in infos.items()]
        elsewhere = any(part.is_kept_elsewhere(info) for part, info in infos.items())
        known = [size for size in sizes if size is not None]
        return (
            recorded is None
            or elsewhere
            or len(known) < len(self._manifest.fixtures[haystack_id])
            or recorded == sum(known)
        )


def cannot_prove(manifest: RunManifest, judges: Iterable[str]) -> tuple[str, ...]:
    """Return what no file of a run can prove.

    Args:
        judges: the chat models that graded it.
    """
    settings, found = manifest.settings, list[str]()
    if isinstance(settings, ImportedSettings):
        found.append("how the answers of another system came about")
    elif manifest.fixtures:
        found.append("that what was recalled, and the prompts, came from these fixtures")
    if settings.model_name:
        found.append(f"that the answers are replies of {settings.model_name}")
    found += [f"that the labels are replies of {judge}" for judge in dict.fromkeys(judges)]
    found.append("reported times, load, memory use, tokens and dollars")
    if manifest.fixtures:
        found.append("cost and times of preparing (prepare.jsonl)")
    return tuple(found)
