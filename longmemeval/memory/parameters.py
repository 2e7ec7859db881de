"""The parameters of each preset. Undeclared names are refused."""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from longmemeval.ranking.parameters import RankedUnits, RankingParameters
from longmemeval.ranking.questions import AnalysisMethod

RANKED_ONLY = ("granularity", "statements", "length_exponent", "expansion", "time_range", "decompose", "reranker")
"""Parameters that apply only to a ranking of all units."""

BEFORE = "before"
"""Key in the `json_schema_extra` of a parameter that was added later: its value in runs that do not record it."""


class Parameters(BaseModel):
    """The base class of all parameters, without any. Values are not converted: `yes` is not a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, defer_build=True)

    limits: ClassVar[tuple[str, ...]] = ("limit", "top_k")
    """Parameters that limit the number of recalled items; a budget replaces them unless they are set."""

    @property
    def analysis(self) -> AnalysisMethod:
        """The method by which questions are analysed."""
        return AnalysisMethod()


class LastMessages(Parameters):
    """Parameters of `last-k`."""

    last_messages: int = Field(50, ge=0)
    """Newest messages of the whole resource, across threads."""


class WorkingMemoryParameters(LastMessages):
    """Parameters of `working-memory`."""

    last_messages: int = Field(10, ge=0)


class RecalledAround(LastMessages):
    """Parameters that say how much is recalled around what is found."""

    last_messages: int = Field(10, ge=0)
    top_k: int = Field(10, ge=1)
    """Units with the best scores."""
    message_range: int = Field(2, ge=0)
    """Neighbours before and after each of their messages, in its thread."""


class RetrievalParameters(RankingParameters, RecalledAround):
    """Parameters of `bm25` and `hybrid`, shared by all configurations that search."""

    budget: int | None = Field(None, ge=1)
    """Maximum tokens to recall, filled in rank order; without it, no limit. A note says what was left out."""


class SemanticParameters(RetrievalParameters):
    """Parameters of `semantic-recall`."""

    retriever: Literal["nearest", "dense", "hybrid"] = Field("nearest", validate_default=True)
    """`nearest`: messages by cosine similarity alone, from the index; `dense` and `hybrid` rank the whole history."""
    scope: Literal["resource", "thread"] = "resource"
    """Search all threads of the resource, or the question's own thread only (`nearest`)."""

    @field_validator("retriever")
    @classmethod
    def _refuse_what_nearest_cannot_do(cls, retriever: str, known: ValidationInfo) -> str:
        unused = [name for name in RANKED_ONLY if known.data.get(name) not in (None, "off", 0, "turn")]
        if retriever == "nearest" and unused:
            raise PydanticCustomError(
                "nearest",
                "It would ignore {names}: set retriever=hybrid (or dense) as well",
                {"names": " and ".join(unused)},
            )
        return retriever


class RagParameters(SemanticParameters):
    """Parameters of `rag`: what is found, and nothing else."""

    last_messages: int = Field(0, ge=0)
    message_range: int = Field(0, ge=0)


class RerankedParameters(RagParameters):
    """Parameters of `rag-rerank`: cosine similarity alone, then a cross-encoder."""

    retriever: Literal["nearest", "dense", "hybrid"] = Field("dense", validate_default=True)
    window: tuple[float, ...] = Field(default=(), strict=False)
    speaker_weight: float = Field(default=0.0, ge=0)
    statement_weight: float = Field(default=0.0, ge=0)
    date_weight: float = Field(default=0.0, ge=0)
    reranker: str | None = "fastembed:Xenova/ms-marco-MiniLM-L-6-v2"


class SimpleFastParameters(RagParameters):
    """Parameters of `simple-fast`, those of the published run (EmergenceAI's Simple Fast, 2025)."""

    top_k: int = Field(42, ge=1)


class VotesParameters(RagParameters):
    """Parameters of `session-votes`."""

    granularity: RankedUnits = "votes"
    top_k: int = Field(5, ge=1)
    retriever: Literal["nearest", "dense", "hybrid"] = Field("hybrid", validate_default=True)


class CombinedParameters(SemanticParameters):
    """Parameters of `combined`."""

    last_messages: int = Field(20, ge=0)
    top_k: int = Field(5, ge=1)
    message_range: int = Field(1, ge=0)
