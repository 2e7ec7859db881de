"""Read the files of one run for its figures: each is opened and decoded once."""

from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from longmemeval.core.files import sha256_bytes, sha256_file
from longmemeval.core.journal import StoredJournal
from longmemeval.measures.metrics import Metrics
from longmemeval.measures.notation import Ranking
from longmemeval.reading.prompts import SentPrompt
from longmemeval.records import Answer, Judgement
from longmemeval.results.lines import (
    ANSWERS,
    PROMPTS,
    RANKINGS,
    current_answers,
    judgements_file,
    latest_judgements,
)
from longmemeval.results.manifest import RunManifest, read_manifest
from longmemeval.results.scores.stored import stored_metrics


class PromptEntry(Struct, frozen=True):
    """A stored prompt without its text."""

    question_id: str
    purpose: str
    sha256: str
    intact: bool
    """True if `sha256` is the hash of its messages."""
    sizes: tuple[int, ...]
    """Bytes of each message, as UTF-8."""


class RunFiles:
    """The files of a run, as they were when first read.

    A command that writes to one of them reports it here; later reads see what it wrote.

    Args:
        folder: folder of the run.
        look_into_prompts: True if `prompts` will be used: they are then decoded when their file is read for its hash.
        manifest: the manifest, if it was read already; else it is read on first use, and must be of a run of the
            folder's name.
    """

    def __init__(self, folder: Path, *, look_into_prompts: bool = False, manifest: RunManifest | None = None) -> None:
        if manifest:
            self.manifest = manifest
        self.folder = folder
        self._prompts: list[PromptEntry] = []
        self._look_into_prompts = look_into_prompts
        self._judgements: dict[str, StoredJournal[Judgement]] = {}
        self._other_hashes: dict[str, str] = {}

    @cached_property
    def manifest(self) -> RunManifest:
        """`run.json`.

        Raises:
            HarnessError: it is of a newer format.
            IntegrityError: it is damaged.
        """
        return read_manifest(self.folder)

    @cached_property
    def _answers(self) -> StoredJournal[Answer]:
        return StoredJournal(self.folder / ANSWERS, Answer)

    @cached_property
    def _rankings(self) -> StoredJournal[Ranking]:
        return StoredJournal(self.folder / RANKINGS, Ranking)

    @property
    def answer_lines(self) -> list[Answer]:
        """All lines of `answers.jsonl`; a run of rankings has none."""
        return self._answers.records

    @cached_property
    def answers(self) -> dict[str, Answer]:
        """The answer that counts, by question id."""
        return current_answers(self.answer_lines)

    @property
    def rankings(self) -> list[Ranking]:
        """All lines of `rankings.jsonl`; a run of answers has none."""
        return self._rankings.records

    @property
    def prompts(self) -> list[PromptEntry]:
        """Each stored prompt without its text."""
        if not self._look_into_prompts:
            self._look_into_prompts = True
            self._other_hashes.pop(PROMPTS, None)
        return self._prompts if self.sha256(PROMPTS) else []

    def sha256(self, name: str) -> str:
        """Return the hash of one of the run's journals; empty if it does not exist."""
        if name in (ANSWERS, RANKINGS):
            return (self._answers if name == ANSWERS else self._rankings).sha256
        if name not in self._other_hashes:
            self._other_hashes[name] = self._hash_of(name)
        return self._other_hashes[name]

    @property
    def content_sha256(self) -> str:
        """Hash of everything that determines figures: manifest, answers, prompts, judgements and scores, as read."""
        journals = {ANSWERS, PROMPTS, RANKINGS, *self.manifest.files}
        hashes = {name: self.sha256(name) for name in sorted(journals)}
        judged = {judge_id: self.judged(judge_id).sha256 for judge_id in self.judge_ids}
        return sha256_bytes(msgspec.json.encode((self.folder.name, self.manifest, hashes, judged, self.metrics)))

    def key_of(self, what: str, *others: str) -> tuple[str, ...]:
        """Return the cache key of a result of all these files: its name, their hash and its other inputs."""
        return (what, self.content_sha256, *others)

    def prompts_to(self, question_id: str) -> list[SentPrompt]:
        """Return the prompts of one question, read from their file; of a run in progress, the complete ones."""
        path, wanted = self.folder / PROMPTS, msgspec.json.encode(question_id)
        if not path.exists():
            return []
        with path.open("rb") as lines:
            found = [line for line in lines if wanted in line and line.endswith(b"\n")]
        sent = (msgspec.json.decode(line, type=SentPrompt) for line in found)
        return [prompt for prompt in sent if prompt.question_id == question_id]

    def _hash_of(self, name: str) -> str:
        path = self.folder / name
        if name == PROMPTS and self._look_into_prompts:
            # Prompts can be larger than everything else together: their texts are not held in memory.
            stored = StoredJournal(path, SentPrompt, lambda prompt: self._prompts.append(_entry(prompt)))
            _ = stored.records
            return stored.sha256
        return sha256_file(path) if path.exists() else ""

    @property
    def judge_ids(self) -> list[str]:
        """Ids of the judges that have judgements."""
        return sorted(file.stem for file in (self.folder / "judgements").glob("*.jsonl"))

    def judged(self, judge_id: str) -> StoredJournal[Judgement]:
        """Return the journal of one judge's judgements."""
        if judge_id not in self._judgements:
            self._judgements[judge_id] = StoredJournal(judgements_file(self.folder, judge_id), Judgement)
        return self._judgements[judge_id]

    def writes(self, judge_id: str, journal: StoredJournal[Judgement] | None) -> None:
        """Register the journal of a judge's judgements that this command writes; None: its file was removed."""
        if journal is None:
            self._judgements.pop(judge_id, None)
        else:
            self._judgements[judge_id] = journal

    def judgements(self, judge_id: str) -> list[Judgement]:
        """Return all judgements by one judge."""
        return self.judged(judge_id).records

    def current_judgements(self, judge_id: str) -> dict[str, Judgement]:
        """Return the judgement that counts for each question: its label, or the newest failure if there is none."""
        return latest_judgements(self.judgements(judge_id))

    @cached_property
    def metrics(self) -> list[Metrics]:
        """The scores of the run by all its judges, the newest last.

        Raises:
            IntegrityError: a file of scores is damaged.
        """
        return stored_metrics(self.folder)

    def scored(self, metrics: Metrics) -> None:
        """Register scores that this command has written."""
        self.metrics = [*(scores for scores in self.metrics if scores.judge.id != metrics.judge.id), metrics]


def _entry(prompt: SentPrompt) -> PromptEntry:
    return PromptEntry(
        prompt.question_id,
        prompt.purpose,
        prompt.sha256,
        intact=sha256_bytes(msgspec.json.encode(prompt.messages)) == prompt.sha256,
        sizes=tuple(len(message.content.encode()) for message in prompt.messages),
    )
