"""Zep's API, version 4, as far as the adapter calls it."""

from typing import Any

from tests.memory.products.hosted.stub import HostedStub, Reply, Request, Route, best

_NOT_FOUND: Reply = (404, {"error": {"code": "not_found", "message": "not found"}})


class ZepStub(HostedStub):
    """Users, threads, tasks and the episodes and edges of users' graphs."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Api-Key {key}")
        self.users: dict[str, str] = {}
        self.threads: dict[str, str] = {}
        self.episodes: dict[str, dict[str, Any]] = {}
        self.tasks: dict[str, list[str]] = {}
        """What a task works on; of a deletion the user."""
        self.replies: dict[str, Reply] = {}
        self.numbers = 0

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/users", self.create_user, ["user_id"]),
            Route("POST", "/users/lookup", self.lookup, ["user_id"]),
            Route("DELETE", "/users/([^/]+)", self.delete_user),
            Route("POST", "/threads", self.create_thread, ["user_uuid"]),
            Route("GET", "/threads", self.list_threads),
            Route("DELETE", "/threads/([^/]+)", self.delete_thread),
            Route("POST", "/threads/([^/]+)/messages", self.add_messages, ["messages"]),
            Route("GET", "/threads/([^/]+)/messages", self.list_messages),
            Route("GET", "/tasks/([^/]+)", self.task),
            Route("POST", "/graphs/([^/]+)/episodes/list", self.list_episodes, [], ["filters"]),
            Route("DELETE", "/graphs/([^/]+)/episodes/([^/]+)", self.delete_episode),
            Route("POST", "/graphs/([^/]+)/search/edges", self.search_edges, ["query"], ["reranker"]),
            Route("POST", "/graphs/([^/]+)/search/episodes", self.search_episodes, ["query"], ["reranker"]),
        ]

    def kept(self) -> list[str]:
        return list(self.users.values())

    def name(self, kind: str) -> str:
        self.numbers += 1
        return f"{kind}-{self.numbers}"

    def once(self, request: Request, reply: Reply) -> Reply:
        """The same reply to the same request, which is known by its key."""
        return self.replies.setdefault(request.headers["Idempotency-Key"], reply)

    def create_user(self, request: Request) -> Reply:
        if request.body["user_id"] in self.users.values():
            return self._refused(request, 409, "the user exists")
        user = self.name("user")
        self.users[user] = request.body["user_id"]
        return 201, {"uuid": user, "user_id": request.body["user_id"]}

    def lookup(self, request: Request) -> Reply:
        found = [user for user, name in self.users.items() if name == request.body["user_id"]]
        return (200, {"uuid": found[0]}) if found else _NOT_FOUND

    def delete_user(self, request: Request, user: str) -> Reply:
        if user not in self.users:
            return _NOT_FOUND
        task = self.name("task")
        self.tasks[task] = [user]
        self.begin(task)
        return 202, {"task": {"uuid": task, "status": "pending"}}

    def create_thread(self, request: Request) -> Reply:
        if (key := request.headers["Idempotency-Key"]) in self.replies:
            return self.replies[key]
        thread = self.name("thread")
        self.threads[thread] = request.body["user_uuid"]
        return self.once(request, (201, {"uuid": thread}))

    def list_threads(self, request: Request) -> Reply:
        user = request.query["user_uuid"]
        return 200, {"items": [{"uuid": thread} for thread, owner in self.threads.items() if owner == user]}

    def delete_thread(self, request: Request, thread: str) -> Reply:
        del self.threads[thread]
        return 202, {}

    def add_messages(self, request: Request, thread: str) -> Reply:
        if (key := request.headers["Idempotency-Key"]) in self.replies:
            return self.replies[key]
        messages = request.body["messages"]
        task = self.name("task")
        self.tasks[task] = []
        for one in messages:
            if len(messages) > 30 or len(one["content"]) > 2500 or one.keys() - {*_SENT, "name"} or _SENT - one.keys():
                return self._refused(request, 400, "not a message that Zep takes")
            self.tasks[task].append(self.name("episode"))
            self.episodes[self.tasks[task][-1]] = {**one, "thread": thread, "user": self.threads[thread]}
        self.begin(task)
        return self.once(request, (202, {"messages": [], "task": {"uuid": task, "status": "pending"}}))

    def list_messages(self, request: Request, thread: str) -> Reply:
        found = [one for one in self.episodes.values() if one["thread"] == thread]
        return 200, {"items": [{"metadata": one["metadata"]} for one in found[:1]]}

    def task(self, request: Request, task: str) -> Reply:
        if not self.done(task):
            return 200, {"uuid": task, "status": "processing"}
        if (user := self.tasks[task][0]) in self.users:
            del self.users[user]
            self.threads = {thread: owner for thread, owner in self.threads.items() if owner != user}
            self.episodes = {key: one for key, one in self.episodes.items() if one["user"] != user}
        elif any(self.fails_on in self.episodes[one]["content"] for one in self.tasks[task] if one in self.episodes):
            return 200, {"uuid": task, "status": "failed", "error": {"code": "x", "message": "could not be read"}}
        return 200, {"uuid": task, "status": "succeeded"}

    def list_episodes(self, request: Request, user: str) -> Reply:
        """Two to a page, to have pages."""
        found = [key for key, one in self.episodes.items() if one["user"] == user]
        start = int(request.query.get("cursor", 0))
        more = {"next_cursor": str(start + 2)} if start + 2 < len(found) else {}
        return 200, {"items": [self.shown(key) for key in found[start : start + 2]], **more}

    def shown(self, key: str) -> dict[str, Any]:
        one, task = self.episodes[key], next(task for task, made in self.tasks.items() if key in made)
        told = {name: one[name] for name in ("content", "metadata", "reference_time", "role")}
        return {**told, "uuid": key, "role_name": one.get("name"), "processed": self.is_done(task)}

    def delete_episode(self, request: Request, user: str, key: str) -> Reply:
        del self.episodes[key]
        return 202, {}

    def found(self, request: Request, user: str) -> list[tuple[str, float]]:
        texts = {key: one["content"] for key, one in self.episodes.items() if one["user"] == user}
        return best(request.body["query"], texts, int(request.query["page_size"]))

    def search_edges(self, request: Request, user: str) -> Reply:
        """A fact for each episode."""
        edges = [
            {
                "uuid": f"edge-{key}",
                "fact": self.episodes[key]["content"],
                "episode_uuids": [key],
                "valid_at": self.episodes[key]["reference_time"],
                "created_at": "2031-01-01T00:00:00Z",
                "score": score,
            }
            for key, score in self.found(request, user)
        ]
        return 200, {"items": edges}

    def search_episodes(self, request: Request, user: str) -> Reply:
        return 200, {"items": [{**self.shown(key), "score": score} for key, score in self.found(request, user)]}


_SENT = {"content", "role", "reference_time", "metadata"}
