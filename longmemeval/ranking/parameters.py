"""The parameters of a ranking of all units: of presets, YAML files and `run.json`, and of the retriever itself."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from longmemeval.ranking.dates import DATES
from longmemeval.ranking.expansion.chat import ExpansionKind, ExpansionLevel
from longmemeval.ranking.expansion.part import JoinMode, key_vectors_part, keys_part
from longmemeval.ranking.fusion import Fusion
from longmemeval.ranking.history import Granularity, Side
from longmemeval.ranking.message_vectors import VECTORS
from longmemeval.ranking.questions import AnalysisMethod, Analyst
from longmemeval.ranking.statements import STATEMENT_VECTORS
from longmemeval.ranking.word_counts import WORDS
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import Part

RankedUnits = Literal["turn", "round", "session", "votes"]

# YAML reads `off` as false and `on` as true.
_OffIfFalse = BeforeValidator(lambda value: "off" if value is False else value)


def _refuse_rules(value: object) -> object:
    """Refuse `true` and `rules`: both meant decomposition by rules, which was removed."""
    if value is True or value == "rules":
        raise PydanticCustomError(
            "removed",
            "Decomposition by rules was removed: it lowered recall@10 of hybrid from 83.9 to 83.6 percent "
            "(docs/results.md). Set decompose=model, or leave it off",
        )
    return value


class RankingParameters(BaseModel):
    """Parameters of a ranking of all units. Values are not converted: `yes` is not a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, defer_build=True)

    granularity: RankedUnits = "turn"
    """The units that are ranked: turns, rounds (a user turn with what follows it) or sessions; `votes`: sessions, by
    the ranks of their turns among the best `rerank_depth`."""
    side: Side = "both"
    """Rank the text of both sides, or of the user side only."""
    fusion: Fusion = "scores"
    """Fusion of lexical and dense scores in `hybrid`: by normalised score or by reciprocal rank."""
    dense_weight: float = Field(default=1.0, ge=0)
    """Weight of the dense score in `hybrid`; the lexical one has 1."""
    window: tuple[float, ...] = Field(default=(0.5, 0.25), strict=False)
    """Weights of neighbours in a turn's score, by distance in the same session; `[]` switches it off."""
    session_weight: float = Field(default=0.3, ge=0)
    """Weight of the lexical score of the whole session."""
    speaker_weight: float = Field(default=0.2, ge=0)
    """Bonus for turns of a speaker the question is about."""
    statement_weight: float = Field(default=0.5, ge=0)
    """Bonus for turns that state more than they ask."""
    date_weight: float = Field(default=0.3, ge=0)
    """Bonus for sessions of a month, year or day the question names."""
    statements: bool = False
    """Leave questions and pleasantries out of a turn's own vector in `hybrid`; its neighbours' vectors, its words and
    what is recalled keep them."""
    length_exponent: float = Field(default=0.0, ge=0, le=1)
    """Divide scores by a unit's length in words to this power, which favours short units. 0 switches it off."""
    expansion: ExpansionKind | None = None
    """Additional keys by which units are found, made at prepare by a chat model (`--expansion-model`): summaries,
    keyphrases, facts or events."""
    expansion_level: ExpansionLevel = "turn"
    """The unit that keys are made from: turns or sessions; keys of sessions work with `granularity` session only."""
    expansion_join: JoinMode = "merge"
    """Keys in front of the text, instead of it, or as documents of their own; in the dense score likewise."""
    time_range: Annotated[Literal["off", "boost", "filter"], _OffIfFalse] = "off"
    """Use of a time the question names: units of those days move up, or all others are left out."""
    time_range_by: Analyst = "rules"
    """The method of finding that time: rules, or a chat model (`--query-model`) called before the run."""
    time_margin_days: int = Field(default=2, ge=0)
    """Days before and after it that still count."""
    decompose: Annotated[Literal["off", "model"], _OffIfFalse, BeforeValidator(_refuse_rules)] = "off"
    """Also search for the parts of a question that has several, named by a chat model (`--query-model`) before the
    run."""
    reranker: str | None = None
    """A cross-encoder that reads the best units again: `fastembed:NAME` or `fastembed:FOLDER`, or one behind a server:
    `litellm:PROVIDER/MODEL` or `litellm:PROVIDER/MODEL@ADDRESS`."""
    rerank_depth: int = Field(default=50, ge=1)
    """The number of units it reads, and of turns that vote for their sessions (`granularity` votes)."""

    @property
    def units(self) -> Granularity:
        """The units that are scored; `votes` scores turns."""
        return "turn" if self.granularity == "votes" else self.granularity

    @property
    def ranking_parts(self) -> tuple[Part[Any], ...]:
        """The parts that a ranking of all units by words reads."""
        expanded = (keys_part(self.expansion, self.expansion_level),) if self.expansion else ()
        return (MESSAGES, WORDS, *expanded, *((DATES,) if self.time_range != "off" else ()))

    @property
    def dense_parts(self) -> tuple[Part[Any], ...]:
        """The additional parts that a ranking by vectors reads."""
        stated = (STATEMENT_VECTORS,) if self.statements else ()
        expanded = (key_vectors_part(self.expansion, self.expansion_level),) if self.expansion else ()
        return (VECTORS, *stated, *expanded)

    @property
    def analysis(self) -> AnalysisMethod:
        """The method by which the parts of a question and the time it names are found."""
        return AnalysisMethod(
            parts=self.decompose if self.decompose != "off" else None,
            time=self.time_range_by if self.time_range != "off" else None,
        )
