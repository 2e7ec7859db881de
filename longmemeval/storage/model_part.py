"""Parts made from the sessions by a chat model, or by rules if an option says so."""

from typing import TypeVar

from longmemeval.core.part_options import PartOptions
from longmemeval.llm.tokens import CharacterCounter
from longmemeval.storage.parts import Expected, Part, PartInput, Stored

T = TypeVar("T")


class ModelPart(Part[T]):
    """A part whose option names the chat model that reads the sessions, or is `rules`."""

    calls_models = True
    option: str
    """Name of the option."""
    title: str
    """Item that is paid for: `working memory`."""
    figure_names: tuple[str, ...]
    """Names that a dry run shows for the number of calls and, if there is a second one, the tokens of the sessions."""
    prompt_tokens: int
    """Tokens of a prompt without the session."""
    reply_tokens: int
    most_reply_tokens: int
    share: float
    """Bytes per character of a haystack."""
    empty_bytes = 0
    calls_per_session = 1

    def models(self, options: PartOptions) -> tuple[str, ...]:
        """Return the chat model that reads the sessions, unless rules do."""
        model: str = getattr(options, self.option)
        return () if model == "rules" else (model,)

    def expected(self, source: PartInput, options: PartOptions) -> Expected | None:
        """Estimate the calls by the number of sessions; further calls cannot be predicted."""
        if not (models := self.models(options)):
            return None
        calls = len(source.haystack.sessions) * self.calls_per_session
        tokens = sum(CharacterCounter().count(message.content) for message in source.messages)
        return Expected(
            self.title,
            models[0],
            calls=calls,
            prompt_tokens=tokens * self.calls_per_session + self.prompt_tokens * calls,
            completion_tokens=self.reply_tokens * calls,
            most_completion_tokens=self.most_reply_tokens * calls,
            figures=dict(zip(self.figure_names, (calls, tokens), strict=False)),
        )

    def size(self, source: PartInput, options: PartOptions, dimension: int) -> float:
        """Estimate the size: a share of the history."""
        return self.share * source.characters + self.empty_bytes

    def flags(self, stored: Stored | None) -> dict[str, str]:
        """Return the chat model that read the sessions as an option, if one did."""
        recipe = stored.info.recipe if stored and stored.info else {}
        return {self.option: str(recipe["model"])} if "model" in recipe else {}
