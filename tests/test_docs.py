"""The pages for people who meet an error, or want to change the code, name what is there."""

import ast
import re
from collections.abc import Iterator

import pytest

from longmemeval.cli.verb_table import SUMMARIES
from tests.sources import PACKAGE, nodes
from tests.support import ROOT

pytestmark = pytest.mark.xdist_group("structure")


def texts_of_the_code() -> Iterator[str]:
    """Every text in the package; `…` is where a value is put into it."""
    for path in PACKAGE.rglob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.slow
def test_messages_of_troubleshooting_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    messages = re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)
    assert len(messages) > 30
    texts = "\n".join(texts_of_the_code())
    pieces = [(message, piece.strip(" '")) for message in messages for piece in message.split("…")]
    assert [message for message, piece in pieces if piece not in texts] == []


@pytest.mark.parametrize("page", ["docs/contributing-map.md", "docs/design.md", "AGENTS.md"])
def test_files_named_for_contributors_are_there(page: str) -> None:
    folders = "|".join(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
    named = re.findall(rf"`((?:{folders})/[\w/]*(?:\.\w+)?)`", (ROOT / page).read_text())
    assert named
    missing = [name for name in named if not (PACKAGE / name).exists()]
    assert [name for name in missing if not any(example in name for example in ("VERB", "NAME"))] == []


def test_every_verb_is_on_the_page_of_the_command_line() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    verbs = set(re.findall(r"^### `(.+)`$", page, re.MULTILINE))
    assert {*SUMMARIES, "judge check", "memory install", "datasets stats", "board build"} <= verbs
    assert not re.search(r"[\u2500-\u257f]", page), "no frames"
    assert len(page) < 35_000


def test_an_option_that_verbs_share_is_explained_once() -> None:
    explained = re.findall(r"^- `.*?(--[a-z-]+).*?`: (.+)$", (ROOT / "docs" / "cli.md").read_text(), re.MULTILINE)
    often = {"--data-dir", "--results-dir", "--json", "--rpm", "--max-attempts", "--limits"}
    assert sorted(name for name, _ in explained if name in often) == sorted(often)


def test_the_readme_is_short_and_says_first_what_it_measures() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 130
    assert "LongMemEval" in "\n".join(lines[:5])


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_of_pages_outside_of_the_site_lead_to_files(page: str) -> None:
    linked = re.findall(r'(?:\]\(|src="|srcset=")((?!https?:)[^)"#]+)', (ROOT / page).read_text())
    assert linked
    assert [name for name in linked if not (ROOT / name).exists()] == []
