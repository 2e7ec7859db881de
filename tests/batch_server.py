"""Batch endpoints of the OpenAI kind on the loopback: files in, files out, with faults on demand."""

import json
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Self

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.server import ModelServer, Refusal, Responder

Spoil = Callable[[int, dict[str, Any]], str | int | None]
"""From the number of a request, over all batches, and its body to what goes wrong with it: an HTTP status, or
"missing", "twice", "unknown" (a line more, for nobody), "garbage" (no JSON); None: nothing."""


class BatchServer(ModelServer):
    """A `ModelServer` that works off batches too, each at the `looks`-th look at it.

    Attributes:
        outcomes: how the next batches end: "completed", "expired" or "cancelled" (with half of their requests), or
            "failed:CODE".
        spoil: what goes wrong with single requests.
        paid: how often each request was answered by a batch, by its body.
    """

    def __init__(self, responder: Responder = lambda body: "A fixed reply.") -> None:
        self.files: dict[str, tuple[str, bytes]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.outcomes: deque[str] = deque()
        self.spoil: Spoil = lambda number, body: None
        self.paid: Counter[str] = Counter()
        self.looks = 1
        self._seen = Counter[str]()
        self._requests_seen = 0
        super().__init__(responder)

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def more_routes(self) -> list[Route]:
        """Files and batches."""
        return [
            Route("/v1/files", self._upload, methods=["POST"]),
            Route("/v1/files", self._list_files, methods=["GET"]),
            Route("/v1/files/{id}/content", self._content, methods=["GET"]),
            Route("/v1/batches", self._create, methods=["POST"]),
            Route("/v1/batches", self._list_batches, methods=["GET"]),
            Route("/v1/batches/{id}", self._look, methods=["GET"]),
        ]

    @property
    def sizes(self) -> list[int]:
        """How many requests each batch had."""
        return [batch["request_counts"]["total"] for batch in self.batches.values()]

    def lines(self, number: int) -> list[dict[str, Any]]:
        """The requests of a batch, by its number from 0."""
        file = list(self.batches.values())[number]["input_file_id"]
        return [json.loads(line) for line in self.files[file][1].splitlines()]

    async def _upload(self, request: Request) -> Response:
        raw = await request.body()
        boundary = b"--" + request.headers["content-type"].partition("boundary=")[2].encode()
        for part in raw.split(boundary):
            head, _, body = part.partition(b"\r\n\r\n")
            if b'name="file"' in head:
                filename = head.decode().partition('filename="')[2].partition('"')[0]
                return JSONResponse(self._file(self._keep(filename, body.removesuffix(b"\r\n"))))
        return JSONResponse({"error": {"message": "no file"}}, status_code=400)

    def _keep(self, filename: str, data: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = (filename, data)
        return name

    def _file(self, name: str) -> dict[str, Any]:
        filename, data = self.files[name]
        known = {"id": name, "object": "file", "bytes": len(data), "created_at": 0, "filename": filename}
        return known | {"purpose": "batch", "status": "processed"}

    async def _list_files(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._file(name) for name in self.files], "has_more": False})

    async def _content(self, request: Request) -> Response:
        return Response(self.files[request.path_params["id"]][1])

    async def _create(self, request: Request) -> Response:
        told = await request.json()
        name = f"batch_{len(self.batches) + 1}"
        total = len(self.files[told["input_file_id"]][1].splitlines())
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "endpoint": told["endpoint"],
            "input_file_id": told["input_file_id"],
            "completion_window": told["completion_window"],
            "status": "validating",
            "created_at": 0,
            "metadata": told.get("metadata"),
            "request_counts": {"total": total, "completed": 0, "failed": 0},
        }
        return JSONResponse(self.batches[name])

    async def _list_batches(self, request: Request) -> Response:
        limit, after = int(request.query_params.get("limit", 20)), request.query_params.get("after")
        listed = list(reversed(self.batches.values()))
        start = next((number + 1 for number, one in enumerate(listed) if one["id"] == after), 0)
        page = listed[start : start + limit]
        return JSONResponse({"object": "list", "data": page, "has_more": start + limit < len(listed)})

    async def _look(self, request: Request) -> Response:
        batch = self.batches.get(request.path_params["id"])
        if batch is None:
            return JSONResponse({"error": {"message": "no such batch"}}, status_code=404)
        self._seen[batch["id"]] += 1
        if self._seen[batch["id"]] == self.looks:
            self._work_off(batch, self.outcomes.popleft() if self.outcomes else "completed")
        elif self._seen[batch["id"]] < self.looks:
            batch["status"] = "in_progress"
        return JSONResponse(batch)

    def _work_off(self, batch: dict[str, Any], outcome: str) -> None:
        ended, _, code = outcome.partition(":")
        batch["status"] = ended
        if ended == "failed":
            batch["errors"] = {"object": "list", "data": [{"code": code, "message": f"refused: {code}", "line": None}]}
            return
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]][1].splitlines()]
        tried = lines if ended == "completed" else lines[: len(lines) // 2]
        out, errors = list[str](), list[str]()
        for line in tried:
            self._reply(line, out, errors)
        if ended == "expired":
            error = {"code": "batch_expired", "message": "This request could not be executed in time."}
            left = lines[len(tried) :]
            errors += [json.dumps({"custom_id": one["custom_id"], "response": None, "error": error}) for one in left]
        random.Random(7).shuffle(out)
        for name, found in (("output_file_id", out), ("error_file_id", errors)):
            if found:
                batch[name] = self._keep(f"{batch['id']}_{name}", "\n".join(found).encode() + b"\n")
        batch["request_counts"] |= {"completed": len(out), "failed": len(errors)}

    def _reply(self, line: dict[str, Any], out: list[str], errors: list[str]) -> None:
        body, custom_id = line["body"], line["custom_id"]
        self._requests_seen += 1
        fault = self.spoil(self._requests_seen, body)
        if fault == "missing":
            return
        limited = self.limits(body) if self.limits else {}
        if isinstance(limited, Refusal):
            said = {"error": {"message": limited.message, "param": limited.param, "code": limited.code}}
            response = {"status_code": limited.status, "request_id": "r", "body": said}
            errors.append(json.dumps({"custom_id": custom_id, "response": response, "error": None}))
            return
        if isinstance(fault, int):
            said = {"error": {"message": "failed on purpose", "type": "server_error", "code": None}}
            response = {"status_code": fault, "request_id": "r", "body": said}
            errors.append(json.dumps({"custom_id": custom_id, "response": response, "error": None}))
            return
        text = "" if fault == "empty" else self.responder(body)
        self.paid[json.dumps(body, sort_keys=True)] += 1
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        choice |= self.choice(body)
        response = {"status_code": 200, "request_id": "r", "body": self.completion(body, [choice], text)}
        reply = json.dumps({"id": "x", "custom_id": custom_id, "response": response, "error": None})
        out.append(reply)
        if fault == "twice":
            out.append(reply)
        if fault == "unknown":
            out.append(reply.replace(custom_id, "nobody"))
        if fault == "garbage":
            out.append('{"custom_id": "cut')
