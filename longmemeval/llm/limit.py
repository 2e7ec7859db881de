"""A limit on concurrent calls."""

import asyncio

from longmemeval.llm.protocol import ChatModel, ChatReply, ChatRequest


class LimitedChatModel:
    """A model that passes calls on to `model`, at most `limit` at a time; the others wait."""

    def __init__(self, model: ChatModel, limit: int) -> None:
        self._model, self.spec = model, model.spec
        self._free = asyncio.Semaphore(limit)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer `request` as soon as a slot is free."""
        async with self._free:
            return await self._model.complete(request)
