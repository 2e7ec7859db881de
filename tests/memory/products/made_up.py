"""A made-up product: a wheel of one module, and a package of an adapter for it."""

from pathlib import Path
from zipfile import ZipFile

PRODUCT = """
def nearest(texts, query):
    return sorted(texts, key=lambda text: -len(set(text.split()) & set(query.split())))
"""

MEMORY = '''
import os
from importlib import import_module
from pathlib import Path

class Boxed:
    """Keeps texts in a box."""

    packages = ("boxes",)
    capabilities = {"dates": "native", "telemetry": "off", "signals": ["words"]}

    def __init__(self, lid="open"):
        self.boxes, self.kept = import_module("boxes"), {}

    def add(self, session):
        self.kept |= {one.content: (one.id, session.date) for one in session.messages}

    def search(self, query, *, date, limit):
        found = self.boxes.nearest(self.kept, query)[:limit]
        return [{"text": one, "message_ids": [self.kept[one][0]], "date": self.kept[one][1]} for one in found]

    def save(self, folder):
        lines = [f"{kept[0]}\\t{kept[1]}\\t{text!r}" for text, kept in self.kept.items()]
        Path(folder, "box").write_text("\\n".join(lines))
        Path(folder, "told").write_text(os.environ["BOXES_TELEMETRY"])

    def load(self, folder):
        from ast import literal_eval
        from datetime import datetime
        for line in Path(folder, "box").read_text().splitlines():
            name, date, text = line.split("\\t", 2)
            self.kept[literal_eval(text)] = name, datetime.fromisoformat(date)
'''

DESCRIPTION = """
summary = "texts in boxes"
class = "Boxed"
requirements = ["boxes==VERSION"]
megabytes = 20
page = "docs/memories/boxes.md"

[environment]
BOXES_TELEMETRY = "off"
"""


def product_wheel(folder: Path, version: str = "1.0") -> Path:
    """The product as a wheel in `folder`."""
    folder.mkdir(exist_ok=True)
    file, info = folder / f"boxes-{version}-py3-none-any.whl", f"boxes-{version}.dist-info"
    with ZipFile(file, "w") as wheel:
        wheel.writestr("boxes.py", PRODUCT)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: boxes\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"boxes.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return file


def adapter_package(folder: Path, version: str = "1.0") -> Path:
    """An installed package, in `folder`, that brings an adapter called `boxes`."""
    package = folder / "boxes_adapter"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(
        "from pathlib import Path\n"
        "from longmemeval.memory.products.adapter import Adapter\n"
        "ADAPTER = Adapter.read(Path(__file__).parent, 'boxes')\n"
    )
    (package / "memory.py").write_text(MEMORY)
    (package / "adapter.toml").write_text(DESCRIPTION.replace("VERSION", version))
    info = folder / "boxes_adapter-0.1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: boxes-adapter\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[longmemeval.memory]\nboxes = boxes_adapter:ADAPTER\n")
    return folder
