"""The scores of a run: as its `metrics/` folder has them, and as its files give them."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.evaluation.judges.protocol import JudgeIdentity
from longmemeval.evaluation.judges.standing import is_official
from longmemeval.evaluation.metrics import METRICS_FORMAT, Metrics, compute_metrics
from longmemeval.files import sha256_file, write_atomic
from longmemeval.pipeline.runs.answers import ANSWERS, current_answers
from longmemeval.pipeline.runs.asked import AskedQuestions
from longmemeval.pipeline.runs.index import record_score
from longmemeval.pipeline.runs.journal import read_journal
from longmemeval.pipeline.runs.judgements import current_judgements, judgements_file
from longmemeval.records import Answer, Judgement, Usage
from longmemeval.text_files import UnreadableError, decode_json


def stored_metrics(folder: Path) -> list[Metrics]:
    """The scores of a run by all its judges, the newest last.

    What an earlier version called official without recording where the judge was served no longer is.

    Raises:
        IntegrityError: a file of scores is damaged.
    """
    files = sorted((folder / "metrics").glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    return [_borne_out(read_metrics(path)) for path in files]


def read_metrics(path: Path) -> Metrics:
    """One file of scores, as it stands there.

    Raises:
        IntegrityError: it is damaged.
        HarnessError: it is of a newer format.
    """
    try:
        data = path.read_bytes()
        version = decode_json(data, _Version).format
        if version > METRICS_FORMAT:
            what = f"The scores have format {version}, this version understands {METRICS_FORMAT}"
            raise HarnessError(what, where=str(path), fix="Upgrade longmemeval")
        return decode_json(data, Metrics)
    except UnreadableError as error:
        raise IntegrityError(
            f"The scores are damaged: {error}",
            where=str(path),
            fix="Delete it and run `longmemeval evaluate` again: it is made from the judgements",
        ) from error


class _Version(Struct):
    format: int = 1


def _borne_out(metrics: Metrics) -> Metrics:
    if metrics.format == METRICS_FORMAT:
        return metrics
    official = metrics.judge.official and is_official(metrics.judge)
    return structs.replace(metrics, judge=structs.replace(metrics.judge, official=official))


def write_metrics(results_dir: Path, folder: Path, asked: AskedQuestions, identity: JudgeIdentity) -> Metrics:
    """Compute the scores of one judge and write `metrics/<judge_id>.json` and the line of the index."""
    metrics = metrics_from_files(folder, asked, identity, current_answers(read_journal(folder / ANSWERS, Answer)))
    path = folder / "metrics" / f"{identity.id}.json"
    write_atomic(path, msgspec.json.format(msgspec.json.encode(metrics), indent=2) + b"\n")
    record_score(results_dir, asked.manifest, metrics, asked.part, asked.protocol_note(metrics.judge.official))
    return metrics


def metrics_from_files(
    folder: Path, asked: AskedQuestions, identity: JudgeIdentity, answers: Mapping[str, Answer]
) -> Metrics:
    """The scores of one judge, from the stored judgements and the run's `answers` alone."""
    judged = judgements_file(folder, identity.id)
    metrics = compute_metrics(
        asked.golds(),
        current_judgements(folder, identity.id),
        identity,
        run=asked.manifest.run_id,
        haystacks={question.question_id: question.haystack_id for question in asked.questions.values()},
        hypotheses={answer.question_id: answer.hypothesis for answer in answers.values() if answer.status == "ok"},
        times=asked.manifest.settings.get("repeated_questions"),
        top_scores={answer.question_id: answer.top_score for answer in answers.values()},
        types=asked.benchmark.types,
    )
    return structs.replace(
        metrics,
        # Of calls that failed before they were made again too.
        usage=sum((judgement.usage for judgement in read_journal(judged, Judgement)), Usage()),
        judgements_sha256=sha256_file(judged) if judged.exists() else "",
        answered=sum(answer.status == "ok" for answer in answers.values()),
    )
