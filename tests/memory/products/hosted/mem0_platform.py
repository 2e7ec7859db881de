"""The API of Mem0 Platform, version 3, as far as the adapter calls it."""

from typing import Any

from tests.memory.products.hosted.stub import HostedStub, Reply, Request, Route, best

_PING = {"status": "ok", "org_id": "org", "project_id": "project", "user_email": "a@example.org"}


class Mem0Stub(HostedStub):
    """Memories of users: one for each message of an addition that is done."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Token {key}")
        self.memories: dict[str, dict[str, Any]] = {}
        self.events: dict[str, dict[str, Any]] = {}
        self.numbers = 0

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/v1/ping/", lambda request: (200, _PING)),
            Route(
                "POST",
                "/v3/memories/add/",
                self.add,
                ["messages", "user_id", "timestamp", "metadata", "infer"],
            ),
            Route("GET", "/v1/event/([^/]+)/", self.event),
            Route("POST", "/v3/memories/", self.get_all, ["filters"]),
            Route(
                "POST",
                "/v3/memories/search/",
                self.search,
                ["query", "filters", "top_k", "rerank"],
                ["reference_date", "threshold"],
            ),
            Route("DELETE", "/v1/memories/", self.delete_all),
            Route("DELETE", "/v1/memories/([^/]+)/", self.delete),
            Route("DELETE", "/v2/entities/user/([^/]+)/", self.delete_user),
        ]

    def kept(self) -> list[str]:
        return sorted({one["user"] for one in self.memories.values()})

    def add(self, request: Request) -> Reply:
        for one in request.body["messages"]:
            if one["role"] not in ("user", "assistant") or not one["content"].strip():
                return self._refused(request, 400, "no message that Mem0 takes")
        self.numbers += 1
        event = f"event-{self.numbers}"
        self.events[event] = request.body
        self.begin(event)
        return 200, {"message": "queued", "status": "PENDING", "event_id": event}

    def event(self, request: Request, event: str) -> Reply:
        asked = self.events[event]
        if not self.done(event):
            return 200, {"id": event, "status": "RUNNING"}
        for number, one in enumerate(asked["messages"]):
            if self.fails_on in one["content"]:
                return 200, {"id": event, "status": "FAILED", "metadata": {"error": "could not be read"}}
            kept = {"id": f"{event}-{number}", "memory": one["content"], "metadata": asked["metadata"]}
            self.memories[kept["id"]] = {**kept, "user": asked["user_id"], "created_at": "2031-01-01T00:00:00Z"}
        return 200, {"id": event, "status": "SUCCEEDED"}

    def chosen(self, filters: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """By the user, and by metadata."""
        found = self.memories
        for one in filters["AND"]:
            if "user_id" in one:
                found = {key: memory for key, memory in found.items() if memory["user"] == one["user_id"]}
            for name, value in one.get("metadata", {}).items():
                found = {key: memory for key, memory in found.items() if memory["metadata"][name] == value}
        return found

    def get_all(self, request: Request) -> Reply:
        found = list(self.chosen(request.body["filters"]).values())
        page = int(request.query["page"])
        some = found[3 * page - 3 : 3 * page]  # Three to a page.
        return 200, {"count": len(found), "next": "more" if 3 * page < len(found) else None, "results": some}

    def search(self, request: Request) -> Reply:
        found = self.chosen(request.body["filters"])
        texts = {key: one["memory"] for key, one in found.items()}
        hits = best(request.body["query"], texts, request.body["top_k"])
        return 200, {"results": [{**found[key], "score": score} for key, score in hits]}

    def delete_all(self, request: Request) -> Reply:
        user = request.query["user_id"]
        self.memories = {key: one for key, one in self.memories.items() if one["user"] != user}
        return 200, {"message": "deleted"}

    def delete(self, request: Request, key: str) -> Reply:
        del self.memories[key]
        return 200, {"message": "deleted"}

    def delete_user(self, request: Request, user: str) -> Reply:
        if any(body["user_id"] == user for body in self.events.values()):
            return 200, {"message": "deleted"}
        return 404, {"detail": "no such user"}
