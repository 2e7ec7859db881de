"""Counts of oddities in a file of LoCoMo-Plus's format."""

from msgspec import Struct

from longmemeval.benchmarks.locomo_plus.loader import CUE_SESSION, LocomoPlusDataset


class LocomoPlusQuirks(Struct):
    """Counts of each oddity."""

    cues_of_one_line: int = 0
    """Cues without a reply."""
    repeated_cues: int = 0
    """Cues with the text of an earlier one; the triggers differ."""
    repeated_triggers: int = 0
    gaps_without_number: int = 0
    """Gaps such as "several months later", read as 0 days as in the official code."""
    cues_before_the_first_session: int = 0
    cues_after_the_last_session: int = 0
    """Cues between the last session and the trigger."""
    cues_at_the_time_of_a_session: int = 0
    """Cues in the same minute as a session, which they follow."""
    lines_without_speaker: int = 0
    """Lines of cues and triggers that begin with neither `A:` nor `B:`, left out as in the official code."""
    items_beyond_ascii: int = 0
    gap_texts: int = 0
    """Number of different texts for the gap before the trigger."""


def locomo_plus_quirks(dataset: LocomoPlusDataset) -> LocomoPlusQuirks:
    """Count the oddities of a file."""
    items = dataset.items
    quirks = LocomoPlusQuirks(
        cues_of_one_line=sum(len(item.cue) == 1 for item in items),
        repeated_cues=len(items) - len({item.cue_dialogue for item in items}),
        repeated_triggers=len(items) - len({item.trigger_query for item in items}),
        gaps_without_number=sum(item.gap_days is None for item in items),
        lines_without_speaker=sum(
            len(item.cue_dialogue.split("\n")) - len(item.cue) + item.trigger_query.count("\n") for item in items
        ),
        items_beyond_ascii=sum(
            not (item.cue_dialogue + item.trigger_query + item.time_gap).isascii() for item in items
        ),
        gap_texts=len({item.time_gap for item in items}),
    )
    for haystack in dataset.haystacks():
        ids = [session.session_id for session in haystack.sessions]
        place = ids.index(CUE_SESSION)
        dates = [session.date for session in haystack.sessions]
        quirks.cues_before_the_first_session += place == 0
        others = dates[:place] + dates[place + 1 :]
        quirks.cues_after_the_last_session += dates[place] > others[-1]
        quirks.cues_at_the_time_of_a_session += dates[place] in others
    return quirks
