"""Choosing among several statements: the best one, or a later one that updates it."""

from collections.abc import Iterator, Sequence

from longmemeval.llm.extractive.matching import Candidate, Matcher
from longmemeval.llm.extractive.parsed_question import ParsedQuestion
from longmemeval.llm.extractive.sentences import Sentence, sentences_of
from longmemeval.llm.extractive.values import holds, is_value

_NEAR_EQUAL = 0.9
"""Among statements with at least this share of the best score, the latest one counts."""
_ENOUGH_OF_ONES_OWN = 0.5
"""With at least this share of the score, a statement about the person in question is preferred to one about another."""
_ABOUT_ANOTHER_SPEAKER = 1.5
_ABOUT_ANOTHER_PERSON = 4.0
"""If a statement about another person matches this many times better than the best one, nothing was said about the
person in question. A user mentions others in passing more often than two speakers repeat each other's words."""

# Share of an earlier statement that a later one must repeat to be about the same matter, 0 to 1.
_SHARED = 0.1
_SHARED_BY_UPDATE = 0.07
_SHARED_WITHOUT_VALUE = 0.2
_OF_SESSION = 0.5
"""Weight of a shared word found elsewhere in the later statement's session."""


def choose(question: ParsedQuestion, matcher: Matcher, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the statement that answers; None if the matching ones are about another person."""
    stated = [statement for statement in candidates if not statement.sentence.question] or list(candidates)
    own = [statement for statement in stated if not statement.foreign]
    best = max(stated, key=lambda statement: statement.score)
    if best.foreign and own:
        mine = max(own, key=lambda statement: statement.score)
        best = mine if mine.score >= _ENOUGH_OF_ONES_OWN * best.score else best
    surest = max(stated, key=lambda statement: statement.reach)
    most = _ABOUT_ANOTHER_SPEAKER if matcher.names else _ABOUT_ANOTHER_PERSON
    if best.foreign or (surest.foreign and surest.reach > most * best.reach):
        return None
    good = [statement for statement in own if statement.score >= _NEAR_EQUAL * best.score]
    latest = max(statement.passage for statement in good)
    best = max((statement for statement in good if statement.passage == latest), key=lambda statement: statement.score)
    return best if question.past else _latest_update(question, matcher, best)


def _latest_update(question: ParsedQuestion, matcher: Matcher, best: Candidate) -> Candidate:
    """Return the latest statement of the same speaker on the same matter, with a value of the kind asked for.

    A statement is on the same matter if it shares words with the earlier one and the question, rare ones weighing more,
    apart from numbers and dates. So a change is found even if it is worded differently from the question.
    """
    words = frozenset(word for word in best.sentence.words | question.words if not is_value(word))
    weights, forms = matcher.weights(words), matcher.forms(words)
    newest, rank = best, (best.session, 0.0)
    for session, place, sentence in _later(matcher, best):
        if sentence.other and not sentence.partly:
            continue
        if not (holds(question.kind, sentence.text) if question.kind else sentence.update):
            continue
        around = frozenset().union(*matcher.held[matcher.sessions[session].start : matcher.sessions[session].stop])
        whole, own = matcher.strengths(around, forms), matcher.strengths(sentence.words, forms)
        # Sorted, so that the sum is deterministic.
        shared = sum(weights[word] * max(own.get(word, 0.0), _OF_SESSION * whole[word]) for word in sorted(whole))
        if question.kind is None:
            enough = shared >= _SHARED_WITHOUT_VALUE
        elif sentence.update:
            enough = shared >= _SHARED_BY_UPDATE
        else:
            enough = shared >= _SHARED and len(whole) >= 2 and bool(own)
        if enough and (session, shared) > rank:
            passage, rank = matcher.passages[place], (session, shared)
            newest = Candidate(
                0.0, 0.0, 0.0, session, place, sentence, passage.date, passage.speaker, foreign=False, direct=bool(own)
            )
    return newest


def _later(matcher: Matcher, earlier: Candidate) -> Iterator[tuple[int, int, Sentence]]:
    """Iterate over the same speaker's statements in later sessions."""
    for session in range(earlier.session + 1, len(matcher.sessions)):
        for place in matcher.sessions[session]:
            if matcher.passages[place].speaker == earlier.speaker:
                for sentence in sentences_of(matcher.passages[place].text):
                    if not sentence.question:
                        yield session, place, sentence
