"""The accounts of a run: what answering and judging cost so far, over all starts.

Each is a file beside the work it pays for. Where a version before there were accounts did some of that work, what its
records say is the first entry; calls that failed then are in no record.
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
    """Of answering the questions of a run, their analysis included."""
    return stored_account(folder / SPENDING, limit, folder / "run.json", lambda: _answers_say(folder))


class AccountsOfRuns:
    """The accounts of the runs that one command makes, one after another, and that share a limit.

    Args:
        results_dir: where the runs are.
        run_ids: of all of them.
        limit: on all of them together, over all starts; None: attempts are only written down.
    """

    def __init__(self, results_dir: Path, run_ids: Sequence[str], limit: SpendingLimit | None) -> None:
        self._folders = {run_id: results_dir.absolute() / run_id for run_id in run_ids}
        self._accounts = {run_id: run_account(folder) for run_id, folder in self._folders.items()}
        self._limit = limit

    def of(self, run_id: str) -> Account:
        """The account of one run; its limit takes in what the others have spent by now."""
        account = self._accounts[run_id]
        if self._limit:
            others = sum(spent_on_answers(folder) for name, folder in self._folders.items() if name != run_id)
            account.limit = structs.replace(self._limit, elsewhere=self._limit.elsewhere + others)
        return account


def judges_account(folder: Path, limit: SpendingLimit | None = None) -> Account:
    """Of judging the answers of a run, by whatever judges."""
    return stored_account(folder / JUDGES_SPENDING, limit, folder / "judgements", lambda: _judgements_say(folder))


def spent_on_answers(folder: Path) -> float:
    """US dollars that answering in this run folder cost, attempts that failed included."""
    spent = spent_in(folder / SPENDING)
    return _answers_say(folder) if spent is None else spent


def spent_on_judging(folder: Path) -> float:
    """US dollars that judging the answers in this run folder cost, attempts that failed included."""
    spent = spent_in(folder / JUDGES_SPENDING)
    return _judgements_say(folder) if spent is None else spent


def stored_account(path: Path, limit: SpendingLimit | None, work: Path, spent_before: Callable[[], float]) -> Account:
    """The account in a file.

    Args:
        path: the file.
        limit: what may be spent.
        work: where the work that is paid for is; where there is none yet, nothing was spent on it.
        spent_before: what the records of that work say it cost, asked where it has no account.
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
