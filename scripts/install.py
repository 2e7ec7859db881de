"""Install the project and its requirements into the environment whose interpreter runs this.

python scripts/install.py [EXTRA,EXTRA]

uv does it in a fraction of pip's time and is installed first; where it cannot be had or fails, pip does it. Versions
are those of constraints.txt, those of build dependencies too. The extra hnsw is compiled, and left out where that
fails. Wants the project's folder as PYTHONPATH, and no package but Python's own.
"""

import argparse
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from longmemeval.memory.products.pip_settings import pip_settings, uv_arguments, uv_variables

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
COMPILED = "hnsw"
"""The extra whose package comes as source."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="?", default="", help="comma-separated names of extras; may be empty")
    extras = list(filter(None, parser.parse_args().extras.split(",")))
    return 0 if by_uv(extras) or by_pip(extras) else 1


def requirements(extras: list[str]) -> list[str]:
    """What is to be installed beside the project itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]


def by_uv(extras: list[str]) -> bool:
    settings = pip_settings()
    say("2. uv, which installs the rest quickly ...")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), "uv"]
    if subprocess.run(pip).returncode:
        return False
    constraints = ["--constraint", str(CONSTRAINTS), "--build-constraint", str(CONSTRAINTS)]
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--compile-bytecode"]
    uv += ["--python", sys.executable, *uv_arguments(settings), *constraints]
    variables = uv_variables(settings) | os.environ
    return installed(uv, variables, extras)


def by_pip(extras: list[str]) -> bool:
    # For build dependencies too: older versions of pip pass PIP_CONSTRAINT on to isolated builds, newer ones have their
    # own. As an address, because pip splits these variables at spaces.
    address = CONSTRAINTS.as_uri()
    variables = os.environ | {"PIP_CONSTRAINT": address, "PIP_BUILD_CONSTRAINT": address}
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    return installed(pip, variables, extras)


def installed(installer: list[str], variables: Mapping[str, str], extras: list[str]) -> bool:
    wanted = requirements([extra for extra in extras if extra != COMPILED])
    say(f"3. {len(wanted)} packages and what they need: the longest step ...")
    if subprocess.run([*installer, *wanted], env=variables).returncode:
        return False
    if COMPILED in extras:
        compiled = sorted(set(requirements([COMPILED])) - set(requirements([])))
        say(f"   {compiled[0]}, which is compiled ...")
        done = subprocess.run(
            [*installer, *compiled], env=variables, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1].strip()
            say(
                f"   It could not be compiled and is left out: {reason}\n"
                "     To have it, on Debian and Ubuntu: apt-get install g++ python3-dev; then delete the environment"
            )
    say("4. longmemeval itself ...")
    return subprocess.run([*installer, *project()], env=variables).returncode == 0


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def project() -> list[str]:
    return ["--no-deps", "--editable", str(ROOT)]


if __name__ == "__main__":
    sys.exit(main())
