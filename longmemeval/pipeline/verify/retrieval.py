"""Check a run of `retrieval`, for `verify`: one ranking per question, and figures that follow from the rankings."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.retrieval_protocols import OfficialRanking
from longmemeval.core.text.words import differences
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.measures.notation import Measure, Ranking, RetrievalResult
from longmemeval.pipeline.retrieval.scoring import RankingScores, official_scoring, standard_scoring
from longmemeval.results.graded.judge_checks import ASKED_TWICE, repeatability
from longmemeval.results.lines import RANKINGS
from longmemeval.results.run_files import RunFiles
from longmemeval.results.settings import RetrievalSettings

_RESULTS = msgspec.json.Decoder(tuple[RetrievalResult, ...])


def check_retrieval(files: RunFiles, settings: RetrievalSettings, dataset: Dataset) -> Iterator[str | None]:
    """Yield one outcome per check: None, or the problem.

    Args:
        dataset: the data that the run ranked.
    """
    rankings = dict[str, Ranking]()
    question_ids = files.manifest.question_ids
    for ranking in files.rankings:
        question_id, known = ranking.question_id, ranking.question_id in question_ids
        yield None if known else f"{RANKINGS}: question '{question_id}' was not selected"
        yield f"{RANKINGS}: question '{question_id}' is ranked twice" if question_id in rankings else None
        rankings[question_id] = ranking
    second_recalls, stored = repeatability(rankings.values()), files.manifest.totals.get(ASKED_TWICE)
    if stored or second_recalls:
        same = second_recalls is not None and stored == msgspec.to_builtins(second_recalls)
        yield None if same else f"run.json: {RANKINGS} gives other figures of what was {ASKED_TWICE.replace('_', ' ')}"
    for file in sorted((files.folder / "metrics").glob("retrieval-*.json")):
        yield _check_results(file, question_ids, settings, dataset, rankings)


def _check_results(
    file: Path,
    question_ids: Sequence[str],
    settings: RetrievalSettings,
    dataset: Dataset,
    rankings: Mapping[str, Ranking],
) -> str | None:
    place = f"metrics/{file.name}"
    try:
        stored = _RESULTS.decode(file.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"{place}: is damaged: {error}"
    missing = next((name for name in question_ids if name not in rankings), None)
    if missing is not None or not stored:
        return f"{place}: {RANKINGS} lacks question '{missing}'" if stored else f"{place}: holds no result"
    try:
        again = _results(stored, settings, dataset, rankings)
    except HarnessError as error:
        return f"{place}: {error}"
    changed = differences(_by_place(stored), _by_place(again))
    return f"{place}: {RANKINGS} gives other figures ({'; '.join(changed[:3])})" if changed else None


def scored_again(stored: Path, files: RunFiles, dataset: Dataset) -> tuple[RetrievalResult, ...]:
    """Score the rankings of a run again, by the measures of stored results.

    Args:
        stored: the file of results.
        dataset: the data that the run ranked.
    """
    rankings = {ranking.question_id: ranking for ranking in files.rankings}
    settings = files.manifest.settings
    assert isinstance(settings, RetrievalSettings)
    return _results(_RESULTS.decode(stored.read_bytes()), settings, dataset, rankings)


def _results(
    stored: tuple[RetrievalResult, ...], settings: RetrievalSettings, dataset: Dataset, rankings: Mapping[str, Ranking]
) -> tuple[RetrievalResult, ...]:
    """Compute the results again, by the stored measures."""
    level, memory = settings.granularity, settings.memory_name
    official = benchmark_of(dataset).official_retrieval if settings.protocol == "official" else None
    if isinstance(official, OfficialRanking):
        ids = {name: [item.id for item in ranking.ranked] for name, ranking in rankings.items()}
        return official.score(dataset, level, ids, memory)
    if official:
        scoring = official_scoring(dataset, level, official)
    else:
        # The last result has all measures; an earlier one may be by a gold rule that has values for only some.
        scoring = standard_scoring(dataset, level, tuple(map(Measure.parse, stored[-1].measures)))
    scores = RankingScores(dataset, scoring)
    for question in dataset.questions():
        if question.question_id in rankings:
            scores.add(question, rankings[question.question_id])
    return tuple(scores.results(memory))


def _by_place(results: tuple[RetrievalResult, ...]) -> dict[str, object]:
    """Return results as plain values, each under its number."""
    return {str(number): msgspec.to_builtins(result) for number, result in enumerate(results)}
