"""A judge's model whose calls are watched: where all fail in the same way, judging ends early."""

from longmemeval.errors import EmptyReplyError, ModelError
from longmemeval.llm.protocol import ChatModel, ChatReply, ChatRequest
from longmemeval.pipeline.runs.workers import Outcomes


class WatchedChatModel:
    """Passes calls on to `model` and tells `outcomes` how each ended."""

    def __init__(self, model: ChatModel, outcomes: Outcomes) -> None:
        self._model = model
        self._outcomes = outcomes

    @property
    def spec(self) -> str:
        """The spec of the model behind."""
        return self._model.spec

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer `request` as the model behind does; raises what it raises."""
        try:
            reply = await self._model.complete(request)
        except ModelError as error:
            self._outcomes.add(error)
            raise
        empty = EmptyReplyError(f"The reply is empty (finish reason: {reply.finish_reason})")
        self._outcomes.add(None if reply.text.strip() else empty)
        return reply
