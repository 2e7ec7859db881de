"""Counts of oddities in data of PersonaMem: they break no rule but can mislead."""

from collections import Counter

from msgspec import Struct

from longmemeval.benchmarks.personamem.loader import PersonaMemDataset


class PersonaMemQuirks(Struct):
    """Counts of each oddity."""

    personas: int = 0
    longest_option_is_right: int = 0
    """Questions that the longest option answers correctly, without any history."""
    longest_but_for_ideas_shortest: int = 0
    """Questions answered correctly in this way, with the shortest option for `suggest_new_ideas`."""
    right_text_under_two_letters: int = 0
    """Questions that repeat the text of the right option under another letter; only one letter counts."""
    repeated_rows: int = 0
    """Questions with the context, the text and, in any order, the options of an earlier question."""
    asked_in_the_history: int = 0
    """Questions whose text is a message of their own history."""


def personamem_quirks(dataset: PersonaMemDataset) -> PersonaMemQuirks:
    """Count the oddities."""
    quirks = PersonaMemQuirks(personas=len(set(dataset.units.values())))
    rows = list(dataset.rows.values())
    for row in rows:
        right = next(option for option in row.options if option[1] == row.letter)
        longest = max(row.options, key=len) == right
        shortest = min(row.options, key=len) == right
        quirks.longest_option_is_right += longest
        quirks.longest_but_for_ideas_shortest += shortest if row.question_type == "suggest_new_ideas" else longest
        quirks.right_text_under_two_letters += [option[4:] for option in row.options].count(right[4:]) > 1
    seen = Counter((row.context_id, row.text, frozenset(option[4:] for option in row.options)) for row in rows)
    quirks.repeated_rows = len(rows) - len(seen)
    for question in dataset.questions():
        sessions = dataset.haystack(question.haystack_id).sessions
        texts = {turn.content.removeprefix("User: ") for session in sessions for turn in session.turns}
        quirks.asked_in_the_history += question.text.removeprefix("User: ") in texts
    return quirks
