"""Supermemory's API, version 5, as far as the adapter calls it."""

from typing import Any

from tests.memory.products.hosted.stub import HostedStub, Reply, Request, Route, best

_TIMES = {"createdAt": "2031-01-01T00:00:00Z", "updatedAt": "2031-01-01T00:00:00Z"}


class SupermemoryStub(HostedStub):
    """Namespaces with documents; a memory is formed of each."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Bearer {key}")
        self.spaces: dict[str, dict[str, dict[str, Any]]] = {}

    def routes(self) -> list[Route]:
        optional = ["id", "metadata", "date", "dreaming"]
        return [
            Route("POST", "/ns/([^/]+)/document", self.add, ["content"], optional),
            Route("DELETE", "/ns/([^/]+)/document", self.delete_documents, ["ids"]),
            Route("POST", "/ns/([^/]+)/list/documents", self.list_documents, [], ["include"]),
            Route("POST", "/ns/([^/]+)/search", self.search, ["query", "searchMode", "limit", "include"], ["rerank"]),
            Route("DELETE", "/ns/([^/]+)", self.delete_namespace),
        ]

    def kept(self) -> list[str]:
        return list(self.spaces)

    def missing(self) -> Reply:
        return 404, {"error": "not_found", "message": "no such namespace"}

    def add(self, request: Request, space: str) -> Reply:
        kept = self.spaces.setdefault(space, {})
        key = request.body["id"]
        if not request.body["content"].strip() or not request.body["date"].endswith("Z"):
            return self._refused(request, 400, "no document that Supermemory takes")
        if key not in kept:
            self.begin(f"{space}/{key}")
        kept[key] = request.body
        return 202, {"id": key, "status": "queued"}

    def delete_documents(self, request: Request, space: str) -> Reply:
        for key in request.body["ids"]:
            self.spaces[space].pop(key, None)
        return 200, {"count": len(request.body["ids"]), "errors": []}

    def list_documents(self, request: Request, space: str) -> Reply:
        if space not in self.spaces:
            return self.missing()
        keys, page = list(self.spaces[space]), int(request.query["page"])
        found = [self.shown(space, key, request.body) for key in keys[2 * page - 2 : 2 * page]]  # Two to a page.
        pages = {"currentPage": page, "limit": 2, "totalItems": len(keys), "totalPages": (len(keys) + 1) // 2}
        return 200, {"documents": found, "chunks": [], "memories": [], "pagination": pages}

    def shown(self, space: str, key: str, asked: dict[str, Any]) -> dict[str, Any]:
        """First it is indexed, then memories are formed."""
        one, done = self.spaces[space][key], self.done(f"{space}/{key}")
        status = "failed" if done and self.fails_on in one["content"] else "done" if self.polled % 2 else "indexing"
        system = {
            "status": "done" if done and status != "failed" else status,
            "dreamingStatus": "done" if done else "dreaming",
        }
        content = {"content": one["content"]} if asked.get("include", {}).get("content") else {}
        return {"id": f"doc-{key}", "type": "text", "metadata": one["metadata"], "system": system | _TIMES, **content}

    def search(self, request: Request, space: str) -> Reply:
        if space not in self.spaces:
            return self.missing()
        kept, body = self.spaces[space], request.body
        texts = {key: one["content"] for key, one in kept.items() if self.is_done(f"{space}/{key}")}
        found = []
        for place, (key, score) in enumerate(best(body["query"], texts, body["limit"])):
            told = {"memory": texts[key]} if place % 2 == 0 else {"chunk": texts[key]}
            document = {"id": f"doc-{key}", "metadata": kept[key]["metadata"], "type": "text", "system": _TIMES}
            included = {"included": {"document": document}} if body["include"].get("documents") else {}
            system = {"updatedAt": _TIMES["updatedAt"]}
            rest = {"metadata": {}, "similarity": score, "isLatest": True, "isInference": False, "system": system}
            found.append({"id": f"r-{key}", **told, **rest, **included})
        return 200, {"results": found, "searchTime": 1.0}

    def delete_namespace(self, request: Request, space: str) -> Reply:
        if space not in self.spaces:
            return self.missing()
        count = len(self.spaces.pop(space))
        counts = {"deletedDocumentsCount": count, "deletedMemoriesCount": count}
        return 200, {"status": "deleted", "namespace": space, **counts}
