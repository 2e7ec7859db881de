"""An environment as `scripts/demo` makes one, without installing anything: links to what is installed here.

It has the distributions that extras of the project need, those that these need, and no others.
"""

import subprocess
import sys
import sysconfig
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.install import requirements
from tests.support import ROOT


def needed(wanted: list[str]) -> dict[str, Distribution]:
    """The distributions that meet requirements here, by name.

    Args:
        wanted: requirements as in pyproject.toml; what is not installed here (hnswlib without a compiler) is left out.
    """
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    left = [(Requirement(each), "") for each in wanted]
    while left:
        requirement, of_extra = left.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": of_extra}):
            continue
        try:
            one = distribution(requirement.name)
        except PackageNotFoundError:
            continue
        name = canonicalize_name(requirement.name)
        found[name] = one
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                left += [(Requirement(each), extra) for each in one.requires or ()]
    return found


def make_environment(at: Path, extras: str) -> Path:
    """Make a virtual environment of the project with `extras`, separated by commas; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(at)], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(at), "platbase": str(at)}))
    for each in needed(requirements([extra for extra in extras.split(",") if extra])).values():
        for file in each.files or ():
            top = file.parts[0]
            if top in ("..", "__pycache__") or (packages / top).exists():
                continue
            (packages / top).symlink_to(Path(str(each.locate_file(top))))
    (packages / "project.pth").write_text(f"{ROOT}\n")
    return at / "bin" / "python"
