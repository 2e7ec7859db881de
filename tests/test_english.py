"""The rules of our English that a program can check, in messages, pages, public docstrings and the help."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup

from longmemeval.cli.main import app
from longmemeval.cli.panels import explanation_of, visible_parameters

PACKAGE = Path(__file__).parents[1] / "longmemeval"
FOR_MODELS = (
    *("benchmarks/beam/protocol.py", "benchmarks/factconsolidation/judges.py", "benchmarks/locomo_plus/protocol.py"),
    *("judges/offline/", "judges/plants/", "llm/extractive/", "llm/json_reply.py", "memory/engram/extraction/"),
    *("memory/nodes/extraction/", "memory/working_memory/", "reading/tool_loop.py"),
    *(f"memory/products/{folder.name}/" for folder in (PACKAGE / "memory/products").iterdir() if folder.is_dir()),
    *("memory/external/serve.py", "memory/external/serve_http.py", "memory/external/serving/"),
)
"""What models read, rules match, or runs record and hash: a change of it would cost people their runs."""
EVERYWHERE = {
    r"\d %(?![\w(])": "61.1%, without a space",
    r"\bdata sets?\b": "dataset",
    r"\bplug-ins?\b": "plugin",
    r"\btime-outs?\b": "timeout",
    r"\bcannot be had\b": "is not available",
    r"\bcontrols apart\b": "without the controls",
    r"95 ?% interval": "95% CI [low, high]",
}
IN_MESSAGES = {
    r"\bthere (is|are) no\b": "Unknown x, No x, or: x does not exist",
    r"\b(is|are) shown\b": "name who shows it",
    r"\bnobody\b": "no one, or name the actor",
    r"\bby hand\b": "manually",
    r"[a-z] ?\.\.\.$": "…",
}
LONGEST_HELP = 60
LONG_HELP = {("report", "--format"), ("report", "--latex-style")}
"""Options whose help is still to be mended, as is the rest of their verb's."""


def faults(text: str, rules: dict[str, str]) -> list[str]:
    return [f"{found[0]!r}: write {better}" for rule, better in rules.items() if (found := re.search(rule, text, re.I))]


def written(literal: ast.JoinedStr | ast.Constant) -> str:
    """The text of a literal, with 0 for what is filled in."""
    if isinstance(literal, ast.Constant):
        return literal.value if isinstance(literal.value, str) else ""
    return "".join(written(part) if isinstance(part, ast.Constant) else "0" for part in literal.values)


def literals(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Line, text and whether it documents a public name, of each literal; without docstrings of what is not public."""
    private, public, inside = set[int](), set[int](), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node) if part is not node}
        body = getattr(node, "body", ())
        for place, statement in enumerate(body if isinstance(body, list) else ()):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                before = body[place - 1] if place else node
                target = before.target if isinstance(before, ast.AnnAssign) else None
                name = str(getattr(before, "name", "") or getattr(target, "id", ""))
                (private if name.startswith("_") else public).add(id(statement.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in private | inside:
            yield node.lineno, written(node), id(node) in public


def listed(path: Path) -> bool:
    name = path.relative_to(PACKAGE).as_posix()
    return not name.startswith(FOR_MODELS)


@pytest.mark.slow
def test_messages_and_public_docstrings() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {fault}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if listed(path)
        for line, text, documents in literals(ast.parse(path.read_text()))
        for fault in faults(text, EVERYWHERE if documents else EVERYWHERE | IN_MESSAGES)
    ]
    assert not found, "\n".join(found)


def test_pages() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {fault}"
        for path in sorted(PACKAGE.rglob("*.j2"))
        if listed(path)
        for fault in faults(re.sub(r"\{[{%#].*?[}%#]\}", "0", path.read_text(), flags=re.S), EVERYWHERE | IN_MESSAGES)
    ]
    assert not found, "\n".join(found)


def help_texts(group: TyperGroup, above: str = "") -> Iterator[tuple[str, str, str]]:
    """Verb, option and help of each option that the help shows, without what stands in brackets."""
    for name, command in group.commands.items():
        verb = f"{above} {name}".strip()
        if isinstance(command, TyperGroup):
            yield from help_texts(command, verb)
            continue
        assert isinstance(command, TyperCommand)
        for parameter in visible_parameters(command):
            names = [one for one in parameter.opts if one.startswith("--")] or [parameter.metavar or parameter.opts[0]]
            yield verb, names[0], re.sub(r"\s*\[[^]]*\]\.?", "", explanation_of(parameter).plain).strip()


@pytest.mark.slow
def test_help_is_short() -> None:
    texts = list(help_texts(typer.main.get_group(app)))
    assert len(texts) > 100
    long = {(verb, option): text for verb, option, text in texts if len(text) > LONGEST_HELP}
    assert long.keys() == LONG_HELP, long
    to_do = {verb for verb, _ in LONG_HELP}
    found = [
        f"{verb} {option}: {fault}"
        for verb, option, text in texts
        if verb not in to_do
        for fault in faults(text, EVERYWHERE | IN_MESSAGES)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "broken"),
    [("score 61.1 % of 0", True), ("61.1%", False), ("at %Y %H", False), ("1 %s", False), ("accuracy %", False)],
)
def test_the_space_before_a_percent_sign(text: str, broken: bool) -> None:
    assert bool(faults(text, EVERYWHERE)) == broken
