"""A file of limits (`--limits FILE`): YAML, explained in docs/rate-limits.md."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt, ValidationError

from longmemeval.core.text_files import load_yaml, read_text, reading
from longmemeval.errors import HarnessError, nearest
from longmemeval.llm.rates.limits import Rate, RateLimits


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelSection(_Section):
    """Limits of one model, or of all whose names match a pattern; see `Rate`."""

    rpm: PositiveFloat | None = None
    tpm: PositiveFloat | None = None
    window: PositiveFloat = 60.0
    headers: bool = True


class ConcurrencySection(_Section):
    """Concurrent calls by stage; None: as --concurrency says."""

    answers: PositiveInt | None = None
    judge: PositiveInt | None = None
    questions: PositiveInt | None = None
    """Calls that analyse the questions."""
    memory: PositiveInt | None = None
    """Calls of external memory systems while they are searched."""

    def of_run(self, usual: int) -> dict[str, int]:
        """Return the calls in flight by stage, named as the options of `run`; `usual` where the file sets none."""
        return {
            "concurrency": self.answers or usual,
            "question_concurrency": self.questions or usual,
            "memory_concurrency": self.memory or usual,
        }


class LimitsFile(_Section):
    """The whole file."""

    models: dict[str, ModelSection] = {}
    """Limits by model name, as options name it, or by pattern, such as `openai/*`; the first match counts."""
    concurrency: ConcurrencySection = ConcurrencySection()


def read_limits(path: Path) -> LimitsFile:
    """Read a file of limits.

    Raises:
        HarnessError: it cannot be read or is invalid; names the field and the nearest valid name.
    """
    with reading("The file of limits", path, "is not YAML"):
        document = load_yaml(read_text(path))
    try:
        return LimitsFile.model_validate(document or {})
    except ValidationError as error:
        problem = error.errors()[0]
        place = [str(step) for step in problem["loc"]]
        sections: dict[str, type[BaseModel]] = {"models": ModelSection, "concurrency": ConcurrencySection}
        fields = sections.get(place[0] if len(place) > 1 else "")
        unknown = problem["type"] == "extra_forbidden"
        raise HarnessError(
            "There is no such field in a file of limits" if unknown else f"The value is not valid: {problem['msg']}",
            where=f"{path}: {'.'.join(place)}" if place else str(path),
            fix=nearest(place[-1], (fields or LimitsFile).model_fields)
            if unknown
            else "Write it like `models: {openai/gpt-4o: {rpm: 500, tpm: 30000}}`",
        ) from error


def rate_limits(content: LimitsFile, *, rpm: float | None, tpm: float | None, folder: Path | None) -> RateLimits:
    """Combine the limits of a file with those of options, which apply to models that the file does not name.

    Args:
        rpm: requests per minute.
        tpm: tokens per minute.
        folder: folder in which processes share their usage.
    """
    models = tuple((name, Rate(**section.model_dump())) for name, section in content.models.items())
    return RateLimits(models, Rate(rpm=rpm, tpm=tpm), folder)
