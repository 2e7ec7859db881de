"""Claims of one episode."""

import re

from longmemeval.memory.engram.extraction.dating import Dated
from longmemeval.memory.engram.extraction.patterns import patterns
from longmemeval.memory.engram.predicates import definition, fact_sentence
from longmemeval.memory.engram.records import Claim, ClaimKind, Episode, Force


def owner(episode: Episode) -> str:
    """Return the person that "I" refers to."""
    return episode.speaker or "user"


def claim_of(
    kind: ClaimKind, subject: str, predicate: str, value: str, when: Dated, episode: Episode, force: Force = "plain"
) -> Claim:
    """Return a claim of one episode: its value normalised for the predicate, its text a sentence with named days."""
    value = _number(value) if definition(predicate).exact or predicate == "age" else value
    text = fact_sentence(subject, predicate, _in_third_person(value)) + (
        f" ({when.words})" if when.words and kind == "assert" else ""
    )
    return Claim(
        kind=kind,
        subject=subject,
        predicate=predicate,
        object=value,
        text=text,
        episode_ids=(episode.episode_id,),
        valid_at=when.valid_at,
        until=when.until if kind == "assert" else None,
        said_at=episode.event_at,
        latest=when.latest,
        force=force,
    )


def _in_third_person(value: str) -> str:
    """Turn a value in the first person into the third."""
    possessive = re.sub(r"\b(?:my|our|My|Our)\b", "their", value)
    return re.sub(r"^been\b", "has been", re.sub(r"\b(?:myself|ourselves)\b", "themselves", possessive))


def _number(value: str) -> str:
    lower = value.lower().replace(",", "")
    return str(patterns().numbers.get(lower, lower))
