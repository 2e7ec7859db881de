"""Stubs of the servers that people run on their own machines: what each tells of its model, and what it does.

Each speaks as public documentation, source and issues say (see `llm/http/own_server.py`); no real server was asked.
"""

import time
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.server import ModelServer, Refusal, Responder

Kind = Literal["vllm", "llama.cpp", "ollama", "lm_studio", "plain"]


class LocalServer(ModelServer):
    """A local server with one model, `tiny`.

    Args:
        kind: the server; `plain` tells nothing.
        window: its context window, in tokens; a token is a word of the prompt.
        loaded: False: the model is loaded by the first call.
        loading_s: the time that loading takes.
        old: an Ollama before `context_length` was part of `/api/ps`.
    """

    def __init__(
        self,
        kind: Kind,
        window: int | None = 8192,
        responder: Responder = lambda body: "A fixed reply.",
        *,
        loaded: bool = True,
        loading_s: float = 0.0,
        old: bool = False,
    ) -> None:
        super().__init__(self._loading, served_model="tiny" if kind == "ollama" else None)
        self.kind, self.window, self.loaded, self.loading_s, self.old = kind, window, loaded, loading_s, old
        self._answer = responder
        self.listed: Response | None = None
        """What `/v1/models` sends instead."""
        self.counted: int | None = None
        """Prompt tokens that every reply reports."""
        self.limits = self._refuse_overflow

    @property
    def root(self) -> str:
        """The address without `/v1`, as Ollama's own protocol wants it."""
        return self.url.removesuffix("/v1")

    def _loading(self, body: dict[str, Any]) -> str:
        if wanted := body.get("options", {}).get("num_ctx"):
            self.loaded, self.window = self.loaded and wanted == self.window, wanted
        if not self.loaded:
            time.sleep(self.loading_s)
            self.loaded = True
        return self._answer(body)

    def _refuse_overflow(self, body: dict[str, Any]) -> Refusal | dict[str, str]:
        """vLLM refuses a prompt that leaves no room for the limit; the others do not."""
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or 0
        if self.kind == "vllm" and self.window and _words(body) + limit > self.window:
            return Refusal(
                400,
                f"This model's maximum context length is {self.window} tokens. However, you requested "
                f"{_words(body) + limit} tokens. Please reduce the length of the messages.",
            )
        return {}

    def completion(self, body: dict[str, Any], choices: list[dict[str, Any]], text: str) -> dict[str, Any]:
        """Ollama cuts what exceeds the window to half of it, and reports what is left."""
        whole = super().completion(body, choices, text)
        if self.kind in ("ollama", "plain") and self.window and _words(body) > self.window:
            whole["usage"]["prompt_tokens"] = self.window // 2 + 2
        if self.counted is not None:
            whole["usage"]["prompt_tokens"] = self.counted
        return whole

    def more_routes(self) -> list[Route]:
        return [Route("/{path:path}", self._other, methods=["GET", "POST"])]

    async def _models(self, request: Request) -> Response:
        await self._record(request)
        if self.listed:
            return self.listed
        more: dict[Kind, dict[str, Any]] = {
            "vllm": {"owned_by": "vllm", "max_model_len": self.window},
            "llama.cpp": {"owned_by": "llamacpp", "meta": {"n_ctx_train": 131072, "n_vocab": 128256}},
            "ollama": {"owned_by": "library"},
            "lm_studio": {"owned_by": "organization_owner"},
        }
        return JSONResponse({"object": "list", "data": [{"id": "tiny", "object": "model"} | more.get(self.kind, {})]})

    async def _other(self, request: Request) -> Response:
        body = await self._record(request)
        known = {"context_length": self.window} if not self.old else {}
        state = {"state": "loaded", "loaded_context_length": self.window} if self.loaded else {"state": "not-loaded"}
        told: dict[tuple[Kind, str], dict[str, Any]] = {
            ("llama.cpp", "/props"): {"default_generation_settings": {"n_ctx": self.window}, "total_slots": 1},
            ("ollama", "/api/ps"): {
                "models": [{"name": "tiny:latest", "model": "tiny:latest", **known}] if self.loaded else []
            },
            ("ollama", "/api/show"): {
                "parameters": f'num_ctx                        {self.window}\nstop "<|eot|>"',
                "model_info": {"llama.context_length": 131072},
            },
            ("lm_studio", "/api/v0/models"): {"data": [{"id": "tiny", "max_context_length": 131072, **state}]},
        }
        if found := told.get((self.kind, request.url.path)):
            return JSONResponse(found)
        if (self.kind, request.url.path) == ("ollama", "/api/chat"):
            self._loading(body)
            counted = self.completion(body, [], "")["usage"]["prompt_tokens"]
            message = {"role": "assistant", "content": self._answer(body)}
            return JSONResponse(
                {
                    "model": "tiny",
                    "created_at": "2026-01-01T00:00:00Z",
                    "message": message,
                    "done": True,
                    "done_reason": "stop",
                    "prompt_eval_count": counted,
                    "eval_count": 3,
                }
            )
        return JSONResponse({"error": "not found"}, status_code=404)


def _words(body: dict[str, Any]) -> int:
    return sum(len(str(message["content"]).split()) for message in body["messages"])
