"""Options of `prepare`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from longmemeval.core.defaults import GIVE_UP_AFTER_S
from longmemeval.core.executors.local import ExecutorName, Jobs
from longmemeval.core.options import OUTPUT, WHAT, Flag
from longmemeval.core.part_options import PartOptions, refusal
from longmemeval.llm.options import ApiBase, GiveUpAfter, MaxCost, ModelOptions
from longmemeval.llm.rates import RateLimits


class PrepareOptions(PartOptions):
    """Options of `prepare`, apart from what to prepare."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Annotated[str, Flag(WHAT, "NAME")] = "default"
    """Name of the preparation."""
    api_base: ApiBase = None
    give_up_after_s: GiveUpAfter = GIVE_UP_AFTER_S
    """Seconds of failures without a success after which a chat model's or embedder's endpoint counts as dead."""
    rates: RateLimits = RateLimits()
    """Requests and tokens per minute that models accept."""
    spending: MaxCost = None
    """The most that embeddings and chat models may cost over all starts of this preparation; None: no limit."""
    account_file: Path | None = None
    """The file that records the costs; None: next to the fixtures."""
    jobs: Jobs = None
    """Workers; None: one per core if there is enough work, as many as a memory service accepts, else none."""
    executor: ExecutorName = None
    """The executor of the workers; None: `processes`, if there are to be workers."""
    force: Annotated[bool, Flag()] = False
    """Remake parts that exist."""
    compress: Annotated[Literal["zstd"] | None, Flag()] = None
    """Store parts as .json.zst, half the size or less (extra `zstd`). Hashes do not change."""
    dry_run: Annotated[bool, Flag(OUTPUT)] = False
    """Show the work and its cost; do nothing."""
    measure: Annotated[int, Flag(metavar="N", minimum=0, shown=False)] = Field(default=0, ge=0)
    """With --dry-run: prepare the first N histories for good, and scale what they took to the rest."""

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, value: object, handler: ModelWrapValidatorHandler["PrepareOptions"]) -> "PrepareOptions":
        """Turn pydantic errors into `HarnessError`.

        Raises:
            HarnessError: there is no such option, or it does not accept this value.
        """
        try:
            return handler(value)
        except ValidationError as error:
            raise refusal(error, cls.model_fields, "An option of `prepare`") from error

    @property
    def model_options(self) -> ModelOptions:
        """The connection to chat models and embedders."""
        return ModelOptions(**{name: getattr(self, name) for name in _CONNECTION})

    def replaced(self, **changes: object) -> "PrepareOptions":
        """Return the options with some values replaced."""
        return PrepareOptions.model_validate(dict(self) | changes)

    @property
    def of_parts(self) -> PartOptions:
        """The options that decide the bytes of parts; paths are absolute, for workers in other folders."""
        values = {name: getattr(self, name) for name in PartOptions.model_fields}
        absolute = {name: value.absolute() if isinstance(value, Path) else value for name, value in values.items()}
        return PartOptions.model_validate(absolute)


_CONNECTION = tuple(name for name in ModelOptions.__struct_fields__ if name in PrepareOptions.model_fields)


def connected_by(options: ModelOptions) -> dict[str, Any]:
    """Return the options of `prepare` that say how a model is reached."""
    return {name: getattr(options, name) for name in _CONNECTION}
