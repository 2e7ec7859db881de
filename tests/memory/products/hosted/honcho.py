"""Honcho's API, version 3, as far as the adapter calls it."""

from datetime import datetime
from typing import Any

from tests.memory.products.hosted.stub import HostedStub, Reply, Request, Route, best

_AT = "/v3/workspaces/([^/]+)"
_NOW = "2031-01-01T00:00:00Z"


class HonchoStub(HostedStub):
    """Workspaces with sessions and peers; a conclusion is drawn of each message of a peer who is observed."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Bearer {key}")
        self.workspaces: dict[str, dict[str, dict[str, Any]]] = {}

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/v3/workspaces", self.workspace, ["id"]),
            Route("DELETE", _AT, self.delete_workspace),
            Route("POST", f"{_AT}/sessions", self.session, ["id"], ["metadata", "peers"]),
            Route("POST", f"{_AT}/sessions/list", self.list_sessions, [], ["filters"]),
            Route("DELETE", f"{_AT}/sessions/([^/]+)", self.delete_session),
            Route("POST", f"{_AT}/sessions/([^/]+)/messages", self.add, ["messages"]),
            Route("POST", f"{_AT}/sessions/([^/]+)/messages/list", self.list_messages, [], ["filters"]),
            Route("POST", f"{_AT}/peers/list", self.list_peers, [], ["filters"]),
            Route("GET", f"{_AT}/queue/status", self.queue),
            Route("POST", f"{_AT}/conclusions/query", self.conclusions, ["query", "top_k", "filters"]),
            Route("POST", f"{_AT}/search", self.search, ["query", "limit"], ["filters"]),
        ]

    def kept(self) -> list[str]:
        return list(self.workspaces)

    def workspace(self, request: Request) -> Reply:
        self.workspaces.setdefault(request.body["id"], {})
        return 200, {"id": request.body["id"], "metadata": {}, "configuration": {}, "created_at": _NOW}

    def delete_workspace(self, request: Request, name: str) -> Reply:
        if self.workspaces[name]:
            return self._refused(request, 409, "the workspace has sessions")
        del self.workspaces[name]
        return 202, None

    def session(self, request: Request, workspace: str) -> Reply:
        kept = self.workspaces[workspace].setdefault(request.body["id"], {"messages": [], "metadata": {}, "peers": {}})
        kept["metadata"] |= request.body.get("metadata", {})
        kept["peers"] |= request.body.get("peers", {})
        return 200, self.shown(workspace, request.body["id"])

    def shown(self, workspace: str, name: str) -> dict[str, Any]:
        told = {"id": name, "workspace_id": workspace, "is_active": True, "configuration": {}, "created_at": _NOW}
        return {**told, "metadata": self.workspaces[workspace][name]["metadata"]}

    def page(self, request: Request, items: list[dict[str, Any]]) -> Reply:
        """Two to a page."""
        page = int(request.query.get("page", 1))
        told = {"page": page, "size": 2, "total": len(items), "pages": (len(items) + 1) // 2}
        return 200, {"items": items[2 * page - 2 : 2 * page], **told}

    def list_sessions(self, request: Request, workspace: str) -> Reply:
        return self.page(request, [self.shown(workspace, name) for name in self.workspaces[workspace]])

    def delete_session(self, request: Request, workspace: str, name: str) -> Reply:
        if self.workspaces[workspace].pop(name, None) is None:
            return 404, {"detail": "no such session"}
        return 202, None

    def add(self, request: Request, workspace: str, name: str) -> Reply:
        kept = self.workspaces[workspace][name]
        if any(self.fails_on in one["content"] for one in request.body["messages"]):
            return 422, {"detail": "could not be read"}
        for one in request.body["messages"]:
            date = datetime.fromisoformat(one["created_at"])
            if len(request.body["messages"]) > 100 or len(one["content"]) > 25_000 or date.tzinfo is None:
                return self._refused(request, 400, "no message that Honcho takes")
            told = {"id": f"{name}-{len(kept['messages'])}", "workspace_id": workspace, "session_id": name}
            kept["messages"].append({**one, **told, "token_count": len(one["content"]) // 4})
        self.begin(f"{workspace}/{name}")
        return 200, kept["messages"][-len(request.body["messages"]) :]

    def list_messages(self, request: Request, workspace: str, name: str) -> Reply:
        return self.page(request, self.workspaces[workspace][name]["messages"])

    def list_peers(self, request: Request, workspace: str) -> Reply:
        peers = dict.fromkeys(peer for one in self.workspaces[workspace].values() for peer in one["peers"])
        told = {"workspace_id": workspace, "created_at": _NOW, "metadata": {}, "configuration": {}}
        return self.page(request, [{"id": peer, **told} for peer in peers])

    def queue(self, request: Request, workspace: str) -> Reply:
        left = [name for name in self.workspaces[workspace] if not self.done(f"{workspace}/{name}")]
        counts = {"total_work_units": 9, "completed_work_units": 9 - len(left), "in_progress_work_units": 0}
        busy = {name: {"session_id": name, "pending_work_units": 1, **counts} for name in left}
        return 200, {"pending_work_units": len(left), **counts, "sessions": busy}

    def said(self, workspace: str) -> dict[str, dict[str, Any]]:
        return {one["id"]: one for kept in self.workspaces[workspace].values() for one in kept["messages"]}

    def conclusions(self, request: Request, workspace: str) -> Reply:
        peer = request.body["filters"]["observed_id"]
        observed = {
            key: one
            for key, one in self.said(workspace).items()
            if one["peer_id"] == peer and self.workspaces[workspace][one["session_id"]]["peers"][peer]["observe_me"]
        }
        hits = best(
            request.body["query"], {key: one["content"] for key, one in observed.items()}, request.body["top_k"]
        )
        told = {"observer_id": peer, "observed_id": peer, "created_at": _NOW}
        return 200, [
            {"id": f"c-{key}", "content": one["content"], "session_id": one["session_id"], **told}
            for one in (observed[key] for key, _ in hits)
            for key in [one["id"]]
        ]

    def search(self, request: Request, workspace: str) -> Reply:
        said = self.said(workspace)
        hits = best(request.body["query"], {key: one["content"] for key, one in said.items()}, request.body["limit"])
        return 200, [said[key] for key, _ in hits]
