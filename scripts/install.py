"""Install the project and its requirements into the environment whose interpreter runs this.

python scripts/install.py [EXTRA,EXTRA] [--without NAME]

uv does it in a fraction of pip's time and is installed first; where it cannot be had or fails, pip does it. Versions
are those of constraints.txt, those of build dependencies too. Wants the project's folder as PYTHONPATH.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from longmemeval.memory.products.pip_settings import pip_settings, uv_arguments, uv_variables

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="?", default="", help="comma-separated names of extras; may be empty")
    parser.add_argument("--without", action="append", default=[], help="a package to leave out; may be repeated")
    arguments = parser.parse_args()
    wanted = requirements(arguments.extras, arguments.without)
    return 0 if by_uv(wanted) or by_pip(wanted) else 1


def requirements(extras: str, without: list[str]) -> list[str]:
    """What is to be installed beside the project itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted: list[str] = list(project["dependencies"])
    for extra in filter(None, extras.split(",")):
        wanted += project["optional-dependencies"][extra]
    return [each for each in wanted if re.split(r"[^A-Za-z0-9._-]", each)[0] not in without]


def by_uv(wanted: list[str]) -> bool:
    settings = pip_settings()
    say("2. uv, which installs the rest quickly ...")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), "uv"]
    if subprocess.run(pip).returncode:
        return False
    constraints = ["--constraint", str(CONSTRAINTS), "--build-constraint", str(CONSTRAINTS)]
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--compile-bytecode"]
    uv += ["--python", sys.executable, *uv_arguments(settings), *constraints]
    variables = uv_variables(settings) | os.environ
    return installed(uv, variables, wanted)


def by_pip(wanted: list[str]) -> bool:
    # For build dependencies too: older versions of pip pass PIP_CONSTRAINT on to isolated builds, newer ones have their
    # own. As an address, because pip splits these variables at spaces.
    address = CONSTRAINTS.as_uri()
    variables = os.environ | {"PIP_CONSTRAINT": address, "PIP_BUILD_CONSTRAINT": address}
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    return installed(pip, variables, wanted)


def installed(installer: list[str], variables: Mapping[str, str], wanted: list[str]) -> bool:
    say(f"3. {len(wanted)} packages and what they need: the longest step ...")
    if subprocess.run([*installer, *wanted], env=variables).returncode:
        return False
    say("4. longmemeval itself ...")
    return subprocess.run([*installer, *project()], env=variables).returncode == 0


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def project() -> list[str]:
    return ["--no-deps", "--editable", str(ROOT)]


if __name__ == "__main__":
    sys.exit(main())
