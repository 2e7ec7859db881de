"""A provider that is not real: it keeps what it was paid for, and hangs once, where the command is killed."""

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.pipeline.helpers import start, stop_when
from tests.server import ModelServer, Responder, text_vector
from tests.support import longmemeval

KEY = "sk-none"


def answer_or_label(body: dict[str, Any]) -> str:
    """An answer; to a judge the label that it is wrong."""
    return '{"label": "WRONG"} no' if "generous" in json.dumps(body) else "A blue one."


class Provider(ModelServer):
    """Chat models and embeddings of one provider.

    Args:
        hangs_at: the number of the request, from 1, that is never answered.
        reply: of its chat models.
        vector: of a text.
    """

    def __init__(
        self,
        hangs_at: int,
        reply: Responder = answer_or_label,
        vector: Callable[[str, int], NDArray[np.float32]] = text_vector,
        **given: Any,
    ) -> None:
        self.paid = Counter[str]()
        """Requests that were answered and texts that were embedded, each as often as it was."""
        self.hung = Event()
        self._left = hangs_at

        def answered(body: dict[str, Any]) -> str:
            self.paid[json.dumps(body, sort_keys=True)] += 1
            return reply(body)

        def embedded(text: str, dimension: int) -> NDArray[np.float32]:
            self.paid[text] += 1
            return vector(text, dimension)

        super().__init__(answered, vector=embedded, **given)
        self.plan = self._fault

    def _fault(self) -> str | None:
        self._left -= 1
        if self._left:
            return None
        self.hung.set()
        return "hang"

    def killed_and_resumed(self, claim: str | Path, *arguments: str, cwd: Path) -> dict[str, Any]:
        """Try a claim at this provider, killed with -9 at the request that hangs, and again to the end.

        Asserts that nothing was paid for twice.

        Returns:
            What `--json` prints at the end.
        """
        command = ("claims", "try", claim, *arguments, "--api-base", self.url, "--concurrency", "1")
        stop_when(start(*command, cwd=cwd, OPENAI_API_KEY=KEY), self.hung.is_set, signal.SIGKILL)
        begun = self.paid.total()
        done: dict[str, Any] = json.loads(longmemeval(*command, "--json", cwd=cwd, OPENAI_API_KEY=KEY).stdout)
        assert 0 < begun < self.paid.total()
        twice = [one for one, times in self.paid.items() if times > 1]
        assert not twice, f"{len(twice)} paid twice, first: {twice[0]}"
        assert f"models served at: claimed their providers, here {self.url}" in done["deviations"]
        whole = self.paid.total()
        assert json.loads(longmemeval(*command, "--json", cwd=cwd, OPENAI_API_KEY=KEY).stdout) == done
        assert self.paid.total() == whole, "tried once more, nothing is asked"
        return done
