"""One version, and no file of the version before is refused for it."""

import json
import re
from pathlib import Path

from longmemeval import __version__
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.verify import verify
from tests.pipeline.helpers import answer_all, answers, prepared_colours
from tests.support import ROOT


def test_the_citation_and_the_changelog_name_the_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    versions = re.findall(r"^## (\d+\.\d+\.\d+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions == [__version__, "0.1.0"]


def test_a_run_that_an_earlier_version_began_is_gone_on_with(tmp_path: Path) -> None:
    dataset, where = prepared_colours(tmp_path, 4)
    answer_all(dataset, where)
    folder = where.results_dir / "r"
    manifest = json.loads((folder / "run.json").read_text())
    assert manifest["environment"]["packages"]["longmemeval"] == __version__
    manifest["environment"]["packages"]["longmemeval"] = "0.1.0"
    manifest |= {"status": "interrupted", "ended_at": "", "files": {}}
    (folder / "run.json").write_text(json.dumps(manifest))
    lines = (folder / "answers.jsonl").read_text().splitlines(keepends=True)
    (folder / "answers.jsonl").write_text("".join(lines[:2]))
    report = answer_all(dataset, where)
    assert (report.answered, report.newly_answered) == (4, 2)
    assert len(answers(where)) == 4
    evaluate("r", options=EvaluateOptions(judge="offline/lexical"), where=where)
    assert verify("r", where=where).problems == ()
