"""Answers for LoCoMo-Plus known to be right or wrong: replies that are linked to the cue, and replies that are not.

The gold is the cue, and a reply is right if it refers to it. There are no replies that refer only to the trigger: since
the trigger refers to the cue, such a reply may be linked to the cue.
"""

import re
from collections.abc import Iterator
from random import Random

from longmemeval.core.text.words import content_words
from longmemeval.judges.plants.planting import Ground, Made, Make, non_answers
from longmemeval.records import Gold, Question

_QUOTES = (
    'That takes me back to something you told me: "{cue}" I still have that in mind.',
    'I remember what you said some time ago: "{cue}" That is what I think of now.',
)
_RETOLD = (
    "You once told me this about yourself: {cue} I have not forgotten it.",
    "I keep in mind what I heard from you back then: {cue}",
)
_LATE = (
    "Thank you for telling me, and do take your time with it. There is no hurry on my side, we can talk for as long as "
    'you like. And one more thing, since it belongs here: not long ago you said to me, "{cue}"'
)
_GENERAL = (
    "Thanks for letting me know. Would you like to say a little more?",
    "I see. What would you like to do next?",
    "All right, I am listening. Go on whenever you are ready.",
)
_FORGETS = (
    "I know of nothing you told me before that would have to do with this.",
    "As far as I can tell this is the first time that you speak with me.",
)
_OTHER_SIDE = {
    "i": "you",
    "i'm": "you're",
    "i've": "you've",
    "i'd": "you'd",
    "i'll": "you'll",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "myself": "yourself",
    "am": "are",
}
_REPLY = re.compile(r"(?:\\n|\s)\s*B:\s")
_WORDS = re.compile(r"[A-Za-z]+(?:['\u2019][a-z]+)?")


def retold(cue: str) -> str:
    """Rephrase a statement for its speaker: `I lost my bike` becomes `You lost your bike`."""

    def other_side(match: re.Match[str]) -> str:
        word = match[0].replace("\u2019", "'")
        other = _OTHER_SIDE.get(word.lower(), match[0])
        return other[:1].upper() + other[1:] if match.start() == 0 else other

    return _WORDS.sub(other_side, re.sub(r"\bI was\b", "you were", cue))


def _cue(gold: Gold) -> str:
    """Return the first words of the cue, without the speaker's name."""
    text = gold.evidence_texts[0].partition("\N{FULLWIDTH COLON}")[2]
    # Some lines also contain the reply, after an escaped line break.
    return _REPLY.split(text)[0].strip()


def _words(gold: Gold) -> set[str]:
    return set(content_words(" ".join(text.partition("\N{FULLWIDTH COLON}")[2] for text in gold.evidence_texts)))


def planted_on(ground: Ground) -> Make:
    """Return the maker of the plants of one data set."""
    words = {name: _words(gold) for name, gold in ground.golds.items()}
    triggers = {q.question_id: set(content_words(q.text)) for q in ground.questions}

    def make(question: Question, gold: Gold, random: Random) -> Iterator[Made]:
        cue = _cue(gold)
        yield Made("linked", random.choice(_QUOTES).format(cue=cue))
        yield Made("retold", random.choice(_RETOLD).format(cue=retold(cue)))
        yield Made("linked-late", _LATE.format(cue=cue))
        own = words[gold.question_id] | triggers[gold.question_id]
        others = [name for name, cue_words in words.items() if not own & (cue_words | triggers[name])]
        if others:
            other = random.choice(others)
            text = random.choice(_QUOTES).format(cue=_cue(ground.golds[other]))
            yield Made("other-cue", text, f"cue of {other}")
        yield Made("general", random.choice(_GENERAL))
        yield Made("forgets", random.choice(_FORGETS))
        yield from non_answers(random)

    return make
