"""The accounts of a run: what answering and judging have cost, over all starts.

Each is a file beside the work it pays for. If a version without accounts did some of that work, the cost in its
records is the first entry; calls that failed then are in no record.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from longmemeval.core.journal import read_journal
from longmemeval.llm.costs.spending import SPENDING, Account, SpendingLimit, spent_in
from longmemeval.records import Answer, Judgement, Usage
from longmemeval.results.lines import ANSWERS
from longmemeval.results.manifest import stored_manifest

JUDGES_SPENDING = "spending-judges.jsonl"


def run_account(folder: Path, limit: SpendingLimit | None = None) -> Account:
    """Return the account of answering the questions of a run, including their analysis."""
    return stored_account(folder / SPENDING, limit, folder / "run.json", lambda: _answers_say(folder))


class AccountsOfRuns:
    """The accounts of the runs that one command makes in turn under a common limit.

    Args:
        results_dir: folder of the runs.
        run_ids: ids of all of them.
        limit: limit on all of them together, over all starts; None: attempts are only recorded.
    """

    def __init__(self, results_dir: Path, run_ids: Sequence[str], limit: SpendingLimit | None) -> None:
        self._folders = {run_id: results_dir.absolute() / run_id for run_id in run_ids}
        self._accounts = {run_id: run_account(folder) for run_id, folder in self._folders.items()}
        self._limit = limit

    def of(self, run_id: str) -> Account:
        """Return the account of one run; its limit accounts for what the others have spent so far."""
        account = self._accounts[run_id]
        if self._limit:
            others = sum(spent_on_answers(folder) for name, folder in self._folders.items() if name != run_id)
            account.limit = structs.replace(self._limit, elsewhere=self._limit.elsewhere + others)
        return account


def judges_account(folder: Path, limit: SpendingLimit | None = None) -> Account:
    """Return the account of judging the answers of a run, by any judge."""
    return stored_account(folder / JUDGES_SPENDING, limit, folder / "judgements", lambda: _judgements_say(folder))


def spent_on_answers(folder: Path) -> float:
    """Return the US dollars that answering in this run folder cost, failed attempts included."""
    spent = spent_in(folder / SPENDING)
    return _answers_say(folder) if spent is None else spent


def spent_on_judging(folder: Path) -> float:
    """Return the US dollars that judging the answers in this run folder cost, failed attempts included."""
    spent = spent_in(folder / JUDGES_SPENDING)
    return _judgements_say(folder) if spent is None else spent


def stored_account(path: Path, limit: SpendingLimit | None, work: Path, spent_before: Callable[[], float]) -> Account:
    """Return the account in a file.

    Args:
        path: the file of the account.
        work: path of the work that is paid for; as long as it does not exist, nothing was spent on it.
        spent_before: returns the cost in the records of that work; called if the work has no account.
    """
    return Account(path, limit, before=spent_before if work.exists() and not path.exists() else float)


def _answers_say(folder: Path) -> float:
    usage = sum((answer.usage for answer in read_journal(folder / ANSWERS, Answer)), Usage())
    if (folder / "run.json").exists():
        analyses = stored_manifest(folder).totals.get("query_model", {})
        usage += msgspec.convert(analyses.get("usage", {}), Usage)
    return usage.cost_usd


def _judgements_say(folder: Path) -> float:
    files = sorted((folder / "judgements").glob("*.jsonl"))
    return sum(judgement.usage.cost_usd for file in files for judgement in read_journal(file, Judgement))
