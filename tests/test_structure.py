"""What the house manual promises of the tree: one-way imports, gold apart, quick help."""

import ast
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import longmemeval
from longmemeval.core.text.quantities import MONTHS, WEEKDAYS
from longmemeval.memory.configuration import known_parts
from tests.sources import PACKAGE, nodes
from tests.support import ROOT, clean_environment

pytestmark = pytest.mark.xdist_group("structure")

# The floors of the house, from the ground up: a package imports its own and lower ones. Errors and settings ask `core`
# to hide secrets and to show addresses, so that `core` and the modules at the root are one floor.
FLOORS = (
    ("", "core"),
    ("llm",),
    ("embedding",),
    ("storage",),
    ("ranking",),
    ("reading",),
    ("statistics",),
    ("judges",),
    ("measures",),
    ("memory",),
    ("benchmarks",),
    ("results",),
    ("pipeline",),
    ("report",),
    ("api",),
    ("view",),
    ("cli", "testing"),
)
RANKS = {room: rank for rank, rooms in enumerate(FLOORS) for room in rooms}
HEAVY = {
    "fastembed",
    "hnswlib",
    "jinja2",
    "litellm",
    "loky",
    "matplotlib",
    "networkx",
    "numpy",
    "onnxruntime",
    "openai",
    "scipy",
    "starlette",
    "tiktoken",
    "uvicorn",
}
# Only these may touch gold: what the benchmarks split it off with and grade by, grading, what shows it, and
# the oracle. Samples by type ask the data set for the type alone.
MAY_READ_GOLD = {
    "dataset.py",
    "memory/built_in/presets.py",
    "memory/protocol.py",
    "results/graded/losses.py",
    "results/formats/question_frame.py",
    "results/formats/export_trec.py",
    "pipeline/evaluate/agreement.py",
    "pipeline/evaluate/evaluate.py",
    "pipeline/inspect/inspect.py",
    "pipeline/judge_check/again.py",
    "pipeline/judge_check/check.py",
    "pipeline/retrieval/haystack_ranking.py",
    "pipeline/retrieval/scoring.py",
    "results/run_questions.py",
    "results/scores/checks.py",
    "pipeline/estimate/judging.py",
    "report/charts/of_comparison.py",
    "report/page/question_data.py",
    "view/question/evidence.py",
}
GRADING_ROOMS = ("benchmarks/", "judges/", "measures/", "statistics/")
# What is a benchmark's own stands in its folder; `longmemeval` is this package's name too.
BENCHMARK_NAMES = re.compile(r"(?i:locomo|convomem|mem0|answer_session|\banswer_\b|_abs\b)|LongMemEval")
# The product, by which one of LoCoMo's judges is named too, and its hosted service.
ADAPTERS_OF_MEM0 = tuple(PACKAGE / "memory" / "products" / name for name in ("mem0", "mem0_platform"))
# Names the harnesses whose results are read, and one of them is Mem0's.
HARNESS_FILES = PACKAGE / "results" / "formats" / "harness_files.py"


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if parts[0] in RANKS else ""


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and room of every import of this package."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            room = rest.split(".")[0]
            if package == "longmemeval":
                yield node.lineno, room if room in RANKS else ""


@pytest.mark.slow
def test_imports_point_one_way() -> None:
    wrong = []
    for path in modules():
        room = room_of(path)
        if path.name == "__main__.py" or path == PACKAGE / "__init__.py":
            continue
        for line, other in imported_rooms(path):
            if RANKS[other] > RANKS[room]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {other}")
    assert wrong == []


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# These name modules of ours by string: registries of plug-ins, and what a verb or an exported name is imported by.
REGISTRIES = {
    "longmemeval": "the exported names",
    "longmemeval.cli.verb_table": "the verbs",
    "longmemeval.memory.engram.stores.kinds": "the stores of the bi-temporal engine",
}
IMPORTING = {"import_module", "load_object", "__import__"}
OURS = re.compile(r"longmemeval(\.\w+)+")


def import_graph() -> dict[str, set[str]]:
    """Which modules of the package each of them imports: inside functions and by string too, registries apart."""
    paths = {module_name(path): path for path in modules()}
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        graph[module] = set()
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{one.name}" for one in node.names]
            else:
                names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                found = next((one for one in (name, name.rpartition(".")[0]) if one in paths), None)
                if found and found != "longmemeval":
                    graph[module].add(found)
        if module not in REGISTRIES:
            graph[module] |= {other for name in named_by_string(path) for other in paths if is_named(other, name)}
    return graph


def named_by_string(path: Path) -> Iterator[str]:
    """The modules, or beginnings of their names, that a call imports by string; `on_demand` is none of these calls."""
    for node in nodes(path):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in IMPORTING:
            for inside in ast.walk(node):
                if isinstance(inside, ast.Constant) and isinstance(inside.value, str):
                    name, _, _ = inside.value.partition(":")
                    if OURS.fullmatch(name.removesuffix(".")):
                        yield name


def is_named(module: str, name: str) -> bool:
    return module.startswith(name) if name.endswith(".") else module == name


def test_an_import_by_string_counts(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text(
        '"""About longmemeval.core."""\nimport_module("longmemeval.api.renderer")\n'
        'on_demand("longmemeval.core.x:f")\nimport_module(f"longmemeval.cli.verbs.{name}")\n'
    )
    assert list(named_by_string(source)) == ["longmemeval.api.renderer", "longmemeval.cli.verbs."]
    assert is_named("longmemeval.cli.verbs.run", "longmemeval.cli.verbs.")


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """What is left once everything is taken away that imports, or is imported by, nothing that is left."""
    left = {name: set(others) for name, others in graph.items()}
    while True:
        imported = set[str]().union(*left.values())
        loose = {name for name, others in left.items() if not others & left.keys() or name not in imported}
        if not loose:
            return [sorted(left)] if left else []
        left = {name: others - loose for name, others in left.items() if name not in loose}


@pytest.mark.slow
def test_no_circle_of_imports() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert circles(import_graph()) == []


@pytest.mark.slow
def test_no_circle_among_the_rooms_of_the_pipeline() -> None:
    def room(module: str) -> str:
        return ".".join(module.split(".")[:3])

    rooms: dict[str, set[str]] = {}
    for module, others in import_graph().items():
        if module.startswith("longmemeval.pipeline."):
            inside = {room(other) for other in others if other.startswith("longmemeval.pipeline.")}
            rooms.setdefault(room(module), set()).update(inside - {room(module)})
    assert circles(rooms) == []


# The modules that do a verb's work, and those that may ask them to: a reader of files has no business there.
VERBS = {"run.run", "prepare.prepare", "evaluate.evaluate", "retrieval.retrieve"}
RUN_VERBS = {
    "longmemeval.api.run",
    "longmemeval.api.verbs",
    "longmemeval.pipeline.run.repeats",
    "longmemeval.api.claims",
    "longmemeval.pipeline.demo",
    "longmemeval.pipeline.probe.probe",
    "longmemeval.pipeline.run.estimate",
    "longmemeval.pipeline.evaluate.bridging",
    "longmemeval.pipeline.evaluate.estimate",
    "longmemeval.pipeline.evaluate.several",
    "longmemeval.testing.assertions",
}


@pytest.mark.slow
def test_readers_do_not_import_the_verbs_that_wrote_the_files() -> None:
    verbs = {f"longmemeval.pipeline.{name}" for name in VERBS}
    graph = import_graph()
    assert verbs <= graph.keys()
    found = {module for module, others in graph.items() if others & verbs}
    assert {
        one for one in found if not one.startswith(("longmemeval.cli.", "longmemeval.pipeline.sweep."))
    } == RUN_VERBS


# In these rooms it is the title of a column as well.
ALSO_A_COLUMN = "tokens"


@pytest.mark.slow
def test_pipeline_command_line_and_reports_know_no_part_by_name() -> None:
    parts = known_parts()
    assert {"db", "vector", "words", "tokens", "dates", "working-memory"} < parts.keys()
    homes = {type(part).__module__ for part in parts.values()}
    graph, found = import_graph(), set()
    for path in modules():
        name = str(path.relative_to(PACKAGE))
        if room_of(path) not in ("pipeline", "api", "report", "cli"):
            continue
        found |= {(name, home) for home in graph[module_name(path)] & homes}
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in parts:
                found.add((name, node.value))
    assert {one for one in found if one[1] != ALSO_A_COLUMN or one[0].startswith("pipeline/")} == set()


@pytest.mark.slow
def test_only_named_modules_touch_gold() -> None:
    readers = set()
    for path in modules():
        for node in nodes(path):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name in {"Gold", "gold"}:
                readers.add(str(path.relative_to(PACKAGE)))
    outside = {name for name in readers if not name.startswith(GRADING_ROOMS)}
    assert outside == MAY_READ_GOLD


def names_and_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of everything in a module that is a name or a string, docstrings included."""
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.Name | ast.arg | ast.Attribute):
            yield node.lineno, str(getattr(node, "id", "") or getattr(node, "arg", "") or getattr(node, "attr", ""))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, " ".join([node.module or "", *(one.name for one in node.names)])


# What only the folder of a verb does. `replace` is left out: it is also of strings and records.
FILE_WORK = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "write_atomic", "replacing", "touch", "mkdir"),
    *("unlink", "rmdir", "rename", "glob", "rglob", "iterdir", "walk", "scandir", "listdir", "list_folders"),
    *("stat", "lstat", "exists", "is_file", "is_dir", "is_symlink", "samefile", "chmod", "symlink_to"),
    *("load", "loads", "load_yaml", "safe_load", "decode_json", "Decoder", "read_journal", "iterate_journal"),
    *("sha256", "sha256_file", "sha256_text", "sha256_bytes", "file_digest", "complete", "run_until_complete"),
}
WORK_LIBRARIES = {
    *("asyncio", "concurrent", "csv", "glob", "hashlib", "httpx", "io", "json", "multiprocessing", "pickle", "random"),
    *("shutil", "socket", "sqlite3", "statistics", "subprocess", "tempfile", "tomllib", "yaml", "zipfile"),
}
MAY_WORK = {
    ("output.py", "open"): "what is left of a closed pipe goes to the null device",
    ("output.py", "io"): "standard output is a stream of text",
    ("output.py", "write_atomic"): "the one place that writes what else would be printed",
}


def work_in(syntax: list[ast.AST]) -> Iterator[str]:
    """Names of what a module calls or imports that works on files, hashes, decodes or waits."""
    for node in syntax:
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in FILE_WORK or re.fullmatch(r"msgspec\.\w+\.decode", ast.unparse(node.func)):
                yield name
        elif isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith):
            yield "async"
        elif isinstance(node, ast.Import):
            yield from (root for one in node.names if (root := one.name.split(".")[0]) in WORK_LIBRARIES)
        elif isinstance(node, ast.ImportFrom) and (root := (node.module or "").split(".")[0]) in WORK_LIBRARIES:
            yield root


def test_the_command_line_has_arguments_and_printing_alone() -> None:
    """What a verb does is a function of its folder, which Python users can call."""
    control = "import json\nasync def f(path):\n    path.read_text()\n    msgspec.json.decode(b'')\n    b''.decode()\n"
    assert sorted(work_in(list(ast.walk(ast.parse(control))))) == ["async", "decode", "json", "read_text"]
    own = [path for path in modules() if room_of(path) == "cli"]
    found = {(str(path.relative_to(PACKAGE / "cli")), work) for path in own for work in work_in(nodes(path))}
    assert found == MAY_WORK.keys()


@pytest.mark.slow
def test_no_benchmark_is_named_outside_its_folder() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{line} {found[0]}"
        for path in modules()
        if room_of(path) != "benchmarks" and path.parent not in ADAPTERS_OF_MEM0 and path != HARNESS_FILES
        for line, text in names_and_texts(path)
        if (found := BENCHMARK_NAMES.search(text)) or (found := re.search(r"benchmarks\.longmemeval", text))
    ]
    assert named == []


def test_the_rooms_of_benchmarks_name_none_either() -> None:
    shared = [path for path in (PACKAGE / "benchmarks").glob("*.py") if path.name not in ("registry.py",)]
    named = [
        f"{path.name}:{line} {found[0]}"
        for path in shared
        for line, text in names_and_texts(path)
        if (found := BENCHMARK_NAMES.search(text))
    ]
    assert named == []


@pytest.mark.parametrize("argument", ["--help", "--version", "datasets", "run --help"])
def test_help_loads_no_heavy_library(argument: str) -> None:
    code = (
        "import sys; from longmemeval.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print('LOADED', sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *argument.split()],
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment(),
        timeout=200,
    )
    assert "LOADED []" in done.stdout


def test_import_loads_no_heavy_library() -> None:
    code = f"import sys, longmemeval; print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout.strip() == "[]"


# What parses a command line and prints help: of every other module of ours, importing it would be for nothing.
AT_START = {
    *("errors", "core", "core.files", "core.interruption", "core.options", "core.remote", "core.remote.places"),
    *("core.secrets", "core.secrets.redaction", "core.text", "core.text.figures", "core.text.visible"),
}


def test_start_up_imports_no_module_for_nothing() -> None:
    told = "print('OURS', sorted(name for name in sys.modules if name.startswith('longmemeval')))"
    assert "OURS ['longmemeval']" in run_code(f"import sys, longmemeval; {told}")
    shown = run_code(
        f"import sys; from longmemeval.cli.main import main\ntry: main()\nexcept SystemExit: pass\n{told}", "--help"
    )
    loaded = ast.literal_eval(shown.rpartition("OURS ")[2].strip())
    ours = {name.removeprefix("longmemeval.") for name in loaded} - {"longmemeval"}
    assert {name for name in ours if name.split(".")[0] != "cli"} <= AT_START


def run_code(code: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment(),
        timeout=200,
    ).stdout


def test_whose_data_it_is_takes_no_loader_and_no_judge() -> None:
    told = "benchmarks(); print(sorted(sys.modules))"
    loaded = ast.literal_eval(run_code(f"import sys; from longmemeval.benchmarks.catalogue import benchmarks; {told}"))
    homes = {path.parent.name for path in (PACKAGE / "benchmarks").glob("*/plugins.toml")}
    own = [name.split(".") for name in loaded if name.startswith("longmemeval.benchmarks.")]
    assert {names[2] for names in own if len(names) == 4} == homes
    assert {names[3] for names in own if len(names) == 4} == {"benchmark"}
    assert {"longmemeval.judges.plants.answer_plants", "longmemeval.judges.asking", "numpy"} & set(loaded) == set()


@pytest.mark.slow
def test_what_is_imported_on_demand_is_there() -> None:
    targets = [
        ast.literal_eval(node.args[0])
        for path in modules()
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "on_demand"
    ]
    assert len(targets) > 20
    for target in targets:
        module, _, name = target.partition(":")
        assert callable(getattr(import_module(module), name)), target


def test_two_runs_are_told_apart_without_scipy() -> None:
    told_apart = "from longmemeval.statistics.paired import mcnemar; mcnemar(9, 2)"
    assert run_code(f"import sys; {told_apart}; print('scipy' in sys.modules)") == "False\n"


@pytest.mark.thorough
def test_help_takes_little_more_than_the_library_that_prints_it() -> None:
    # Compiled by the first of them, as for a user.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def seconds(*arguments: str) -> float:
        # Of the processor: what else the machine does is not counted.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=ROOT, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    smallest = "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'])"
    # In turns, and the least of each: what else the machine does makes both slower.
    pairs = [(seconds("-m", "longmemeval", "--help"), seconds("-c", smallest)) for _ in range(6)]
    ours, theirs = map(min, zip(*pairs, strict=True))
    assert ours < 1.2 * theirs


def test_modules_keep_their_size() -> None:
    """A module is one idea that a reader looks for by name, usually 150 to 500 lines."""
    long = {str(path.relative_to(ROOT)): n for path in modules() if (n := len(path.read_text().splitlines())) > 700}
    assert long == {}


MOST_IMPORTS = 25
# What does a verb's whole work meets more of the house.
IMPORT_MORE = {
    "longmemeval/pipeline/evaluate/evaluate.py": 29,
    "longmemeval/pipeline/judge_check/check.py": 29,
    "longmemeval/pipeline/run/run.py": 26,
}


def test_modules_import_little_of_ours() -> None:
    """Imports for types alone are not counted, nor what is imported inside a function."""
    found = {}
    for path in modules():
        tree = ast.parse(path.read_text())
        ours = [
            node
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "longmemeval"
        ]
        if len(ours) > MOST_IMPORTS and path != PACKAGE / "__init__.py":
            found[str(path.relative_to(ROOT))] = len(ours)
    assert found == IMPORT_MORE


@pytest.mark.slow
def test_functions_keep_their_size() -> None:
    """Without their parameters: those of a command are its options."""
    long = {
        f"{path.relative_to(ROOT)}: {node.name}": n
        for path in modules()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (n := (node.end_lineno or 0) - node.body[0].lineno + 1) > 60
    }
    assert long == {}


@pytest.mark.slow
def test_nothing_is_silenced() -> None:
    marks = ("type: ignore", "noqa", "pragma: no cover")
    # This file names them; there they are the test.
    others = {Path(__file__).resolve(), ROOT / "tests" / "api" / "users_script.py"}
    places = [path for path in [*modules(), *sorted((ROOT / "tests").rglob("*.py"))] if path not in others]
    silenced = [f"{path.relative_to(ROOT)}: {mark}" for path in places for mark in marks if mark in path.read_text()]
    assert silenced == []


def test_public_api_is_what_all_says() -> None:
    for name in longmemeval.__all__:
        assert getattr(longmemeval, name) is not None
    assert not hasattr(longmemeval, "prepaer")


@pytest.mark.slow
def test_nobody_keeps_a_calendar_of_their_own() -> None:
    """No list or tuple with two names of weekdays or months stands anywhere else, whole or shortened."""
    names = {form.lower() for name in (*WEEKDAYS, *MONTHS) for form in (name, name[:3])} - {"may"}
    copies = []
    for path in modules():
        if path.name == "quantities.py":
            continue
        for node in nodes(path):
            if not isinstance(node, ast.Tuple | ast.List | ast.Set):
                continue
            held = {str(item.value).lower() for item in node.elts if isinstance(item, ast.Constant)}
            if len(held & names) > 1:
                copies.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert copies == []
