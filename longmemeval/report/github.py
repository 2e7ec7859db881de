"""Show a comparison in a GitHub workflow: a job summary in Markdown, and annotations as lines of the log."""

import os
from collections.abc import Sequence
from pathlib import Path

from longmemeval.core.secrets.redaction import hide
from longmemeval.core.tables.table import escape_markdown
from longmemeval.core.text.figures import visible
from longmemeval.pipeline.claims.catalogue import Claim
from longmemeval.pipeline.compare.baseline import AgainstBaseline, regression
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.report.plain import markdown
from longmemeval.report.tables.comparison import against_line


def job_summary(
    comparison: Comparison, against: Sequence[AgainstBaseline] = (), published: Sequence[Claim] = ()
) -> str:
    """Return the summary in Markdown: a sentence on each run and its baseline, then the report's tables and notes."""
    verdicts = [f"**{_heading(result)}.** {escape_markdown(against_line(result))}" for result in against]
    return "\n\n".join([*verdicts, markdown(comparison, published)])


def write_summary(
    comparison: Comparison, against: Sequence[AgainstBaseline] = (), published: Sequence[Claim] = ()
) -> str:
    """Append the job summary to the file that the runner names, and return the text to print.

    That is the annotations; if no runner names a file (`GITHUB_STEP_SUMMARY`), the summary precedes them.
    """
    summary = hide(job_summary(comparison, against, published)) + "\n"
    lines = "".join(f"{line}\n" for line in annotations(comparison, against))
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(summary)
        return lines
    return summary + lines


def annotations(comparison: Comparison, against: Sequence[AgainstBaseline] = ()) -> list[str]:
    """Return the annotations: an error for each run worse than its baseline, a notice for each other, then warnings.

    Without a baseline, the notice is the comparison's verdict. Each annotation is one line, a workflow command of
    GitHub (https://docs.github.com/actions/reference/workflow-commands-for-github-actions).
    """
    lines = [_annotation(result) for result in against] or [_command("notice", "Verdict", comparison.verdict.whole)]
    return lines + [_command("warning", "Comparable with care", caution) for caution in comparison.cautions]


def _annotation(result: AgainstBaseline) -> str:
    if worse := regression([result]):
        return _command("error", _heading(result), str(worse))
    return _command("notice", _heading(result), against_line(result))


def _heading(result: AgainstBaseline) -> str:
    return "Worse than the baseline" if result.worse else "Not worse than the baseline"


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={title}::{' '.join(visible(message).split()).replace('%', '%25')}"
