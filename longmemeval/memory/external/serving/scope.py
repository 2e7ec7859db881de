"""One history, held by one object of the class."""

import asyncio
import inspect
import shutil
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Any, TypeVar

from .batches import Batches
from .threads import CallThread

T = TypeVar("T")

CHECKPOINT_S = 20.0
"""Seconds of adding after which a memory that can be saved is saved, so that a killed `prepare` resumes from there."""


class Scope:
    """One history: an object of the class, the thread its methods run in, and what was added."""

    def __init__(
        self, make: Callable[..., Any], directory: str, mode: str, *, persist: str, works_in_folder: bool
    ) -> None:
        self._make, self.mode, self._persist = make, mode, persist
        self._thread = CallThread()
        self._work = Path(directory or mkdtemp(prefix="longmemeval-"), "work") if works_in_folder else None
        self.folder = Path(directory) if directory else None
        self.batches = Batches(self.folder / "batches.jsonl" if self.folder and persist == "service" else None)
        self.lock = asyncio.Lock()
        self.saved_at = monotonic()
        self._reported: Mapping[str, int] = {}
        self.memory: Any = None

    async def make(self) -> None:
        """Create the object, replacing an earlier one."""
        if self._work:
            shutil.rmtree(self._work, ignore_errors=True)
            self._work.mkdir(parents=True)
        self.memory = await self.run(self._make, **({"folder": self._work} if self._work else {}))

    async def reset(self) -> None:
        """Empty the scope, by the object's own `reset` if it has one: there may be more to empty than the object."""
        if self.has("reset"):
            await self.run(self.memory.reset)
        else:
            if self.has("close"):
                await self.run(self.memory.close)
            await self.make()
        self.batches.clear()
        for name in ("saved", "saved.new") if self.folder else ():
            shutil.rmtree(Path(self.folder or "", name), ignore_errors=True)

    async def add(self, batch_id: str, session: object) -> None:
        """Add a batch, unless it is there; remains of an earlier attempt are removed first."""
        if batch_id in self.batches.added:
            return
        if batch_id in self.batches.unsure and self.has("forget"):
            await self.run(self.memory.forget, session)
        self.batches.begin(batch_id)
        await self.run(self.memory.add, session)
        self.batches.end(batch_id)
        if self._persist == "directory" and monotonic() - self.saved_at > CHECKPOINT_S:
            await self.save()

    async def delete(self, subject: str) -> None:
        """Delete what was said about a subject; what was saved before is replaced at once, so that it cannot return."""
        await self.run(self.memory.delete, subject)
        if self._persist == "directory":
            await self.save()

    async def keep(self) -> str:
        """Save everything; return the reference if a service keeps it."""
        if self._persist == "directory":
            await self.save()
        return str(await self.run(self.memory.reference)) if self._persist == "service" else ""

    def has(self, method: str) -> bool:
        """Tell whether the object has a method of that name."""
        return callable(getattr(self.memory, method, None))

    async def run(self, method: "Callable[..., Awaitable[T] | T]", *arguments: object, **named: object) -> T:
        """Call `method` and return its result; one that is not `async` runs in the scope's thread."""
        call = partial(method, *arguments, **named)
        result = call() if inspect.iscoroutinefunction(method) else await asyncio.wrap_future(self._thread.submit(call))
        return await result if inspect.isawaitable(result) else result

    async def usage(self) -> dict[str, Any]:
        """Return the usage since the last call, if the class counts it."""
        if not self.has("usage"):
            return {}
        total = dict(await self.run(self.memory.usage))
        since = {key: value - self._reported.get(key, 0) for key, value in total.items()}
        self._reported = total
        return {"usage": since}

    async def save(self) -> None:
        """Write memory and batch ids; a crash at any moment leaves either the old ones or the new ones."""
        if self.folder is None or self.mode == "read":
            return
        new, saved = self.folder / "saved.new", self.folder / "saved"
        shutil.rmtree(new, ignore_errors=True)
        (new / "memory").mkdir(parents=True)
        await self.run(self.memory.save, new / "memory")
        (new / "batches.json").write_text(self.batches.dump())
        shutil.rmtree(saved, ignore_errors=True)
        new.rename(saved)
        self.saved_at = monotonic()

    async def load(self) -> bool:
        """Load what was saved, and tell whether there was anything."""
        for name in ("saved", "saved.new") if self.folder else ():
            batches = Path(self.folder or "") / name / "batches.json"
            if batches.exists():  # It is written last.
                await self.run(self.memory.load, batches.parent / "memory")
                self.batches.load(batches.read_text())
                return True
        return False

    async def close(self) -> None:
        """Close the object and its thread; anything unsaved is lost."""
        if self.has("close"):
            await self.run(self.memory.close)
        self._thread.close()
        if self._work:
            shutil.rmtree(self._work if self.folder else self._work.parent, ignore_errors=True)
