"""`export --format trec`: the rankings of a `retrieval` run, for trec_eval and other readers of its two formats."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.retrieval_protocols import OfficialRanking, evidence
from longmemeval.core.files import write_atomic
from longmemeval.errors import HarnessError
from longmemeval.measures.notation import Ranking
from longmemeval.results.manifest import RunManifest, run_folder
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import dataset_of
from longmemeval.results.scores.checks import check_files, refuse
from longmemeval.settings import Folders

_SEPARATORS = re.compile(r"[\s%\x00-\x1f\x7f]")


class TrecExport(Struct, frozen=True):
    """The files that were written."""

    run_file: str
    qrels_file: str
    questions: int
    without_gold: int
    """Number of questions without a line in the qrels: trec_eval ignores them."""


def export_trec(
    run_id: str, output: Path | None = None, *, dataset: str | None = None, folders: Folders | None = None
) -> TrecExport:
    """Write `<run_id>.run` (`qid Q0 docid rank score tag`) and `<run_id>.qrels` (`qid 0 docid 1`).

    Evaluators sort by score: scores are derived from the ranks, so that they decrease strictly and keep the order. An
    id that a ranking repeats is written once, at its first rank. White space and `%` in ids are percent-encoded. The
    qrels are the evidence (repaired where needed); under an official protocol with its own corpus, the ids that are
    gold there.

    Args:
        run_id: id of a run of `retrieval`.
        output: the folder for the files; None: `trec` in the run's folder.
        dataset: path or name of the dataset with the gold, if it has moved.
        folders: the folders; None: from the environment.

    Raises:
        HarnessError: there is no such run, it is of another kind or unfinished, or its dataset is missing.
        IntegrityError: its rankings have been changed since the run.
    """
    folders = folders or Folders()
    folder = run_folder(folders.results_dir, run_id)
    files = RunFiles(folder)
    manifest = files.manifest
    if manifest.kind != "retrieval":
        raise HarnessError(f"Run '{run_id}' holds no rankings", fix="Export a run of `longmemeval retrieval`")
    refuse(files, check_files(files))
    rankings = {ranking.question_id: ranking for ranking in files.rankings}
    if missing := len(manifest.question_ids) - len(rankings):
        raise HarnessError(
            f"Run '{run_id}' is not finished: {missing} of {len(manifest.question_ids)} questions are not ranked",
            where=str(folder),
            fix="Repeat the command that started it",
        )
    in_order = [rankings[question_id] for question_id in manifest.question_ids]
    gold = _gold(in_order, manifest, dataset, folders)
    output = output or folder / "trec"
    run_file, qrels_file = output / f"{run_id}.run", output / f"{run_id}.qrels"
    write_atomic(run_file, "".join(_run_lines(in_order, run_id)).encode())
    write_atomic(qrels_file, "".join(_qrels_lines(gold)).encode())
    without_gold = sum(not identifiers for identifiers in gold.values())
    return TrecExport(str(run_file), str(qrels_file), len(in_order), without_gold)


def _gold(
    rankings: Sequence[Ranking], manifest: RunManifest, dataset: str | None, folders: Folders
) -> dict[str, Sequence[str]]:
    """Return question id -> the ids that should be found, in a fixed order."""
    data = dataset_of(manifest, dataset, folders)
    official = benchmark_of(data).official_retrieval
    if manifest.settings.plain["protocol"] == "official" and isinstance(official, OfficialRanking):
        # The whole corpus is ranked, so the ranking contains all gold ids.
        return {
            ranking.question_id: sorted(official.gold_ids(item.id for item in ranking.ranked)) for ranking in rankings
        }
    return {ranking.question_id: evidence(data.gold(ranking.question_id), ranking.level) for ranking in rankings}


def _run_lines(rankings: Sequence[Ranking], tag: str) -> Iterator[str]:
    for ranking in rankings:
        identifiers = list(dict.fromkeys(item.id for item in ranking.ranked))
        for rank, identifier in enumerate(identifiers, start=1):
            score = len(identifiers) + 1 - rank
            yield f"{_token(ranking.question_id)} Q0 {_token(identifier)} {rank} {score} {tag}\n"


def _qrels_lines(gold: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for question_id, identifiers in gold.items():
        for identifier in dict.fromkeys(identifiers):
            yield f"{_token(question_id)} 0 {_token(identifier)} 1\n"


def _token(identifier: str) -> str:
    """Return the id as one word; distinct ids stay distinct."""
    return _SEPARATORS.sub(lambda match: quote(match[0]), identifier)
