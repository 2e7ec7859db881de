"""The rules of the rules updater, as data: a sentence that matches a rule becomes an entry of the rule's section.

Patterns are regular expressions in which `<word>` stands for a block of the vocabulary and every group is
non-capturing. Sentences have single spaces and straight apostrophes.
"""

import re
from typing import Literal

from msgspec import Struct

from longmemeval.memory.working_memory.vocabulary import BLOCKS, CLAUSE_LEAD

_CLAUSE_LEAD = re.compile(CLAUSE_LEAD)

Keep = Literal["sentence", "clause"]


class Found(Struct, frozen=True):
    """The place of a statement in a sentence: offsets of its first character and of the one after its last."""

    start: int
    end: int
    value: str
    """The value that only one entry of the rule's topic may have; empty for rules without a topic."""


class Rule(Struct, frozen=True):
    """One kind of statement.

    `keywords` name the section: the first heading with a word that begins with one of them, earlier keywords first.
    `keep` says how much of the sentence the entry shows. Of the entries of one `topic` only the newest holds: an older
    one with another value (`<name>`, `<occupation>`) is marked with the day it ended.
    """

    keywords: tuple[str, ...]
    pattern: re.Pattern[str]
    keep: Keep
    topic: str

    def find(self, sentence: str) -> Found | None:
        """Return the place of a statement of this kind in `sentence`, without the conjunction or comma before it."""
        match = self.pattern.search(sentence)
        if match is None:
            return None
        lead = _CLAUSE_LEAD.match(sentence, match.start(), match.end())
        return Found(lead.end() if lead else match.start(), match.end(), match["value"] if self.topic else "")


def _rule(keywords: tuple[str, ...], pattern: str, keep: Keep = "sentence", topic: str = "") -> Rule:
    groups = re.sub(r"\((?!\?)", "(?:", pattern)
    expanded = re.sub(r"<([\w ]+)>", lambda block: BLOCKS[block[1]], groups)
    return Rule(keywords, re.compile(expanded), keep, topic)


_PROFILE = ("profile", "name", "person", "identity", "about")
_HOME = ("home", "live", "living", "location", "residence", *_PROFILE)
_WORK = ("work", "job", "career", "occupation", "profession", "education", "school", *_PROFILE)
_PEOPLE = ("family", "people", "relation", "friend", "pet")
_PREFERENCES = ("preference", "like", "taste", "favo", "interest")
_POSSESSIONS = ("possession", "belonging", "own", "purchase", "thing")
_PLANS = ("plan", "goal", "upcoming", "intention", "future")
_EVENTS = ("event", "activit", "experience", "happened")

RULES: tuple[Rule, ...] = (
    _rule(_PROFILE, r"(<start>[Mm]y name('s| is)|^Hi, I('m| am)) <no nationality><name>", "clause", "name"),
    _rule(_PROFILE, r"<I am>(\d\d years old|(turning|almost|about to turn) \d\d)\b"),
    _rule(_PROFILE, r"<I>(turned \d\d|speak (?!(To|With|Up)\b)[A-Z])"),
    _rule(_PROFILE, r"(<I am>allergic to|<I did>(was |been )?diagnosed with|<I>suffer from)\b"),
    _rule(
        _HOME,
        r"(<I>live in|<I am>living in|<I did>(moved|relocated)( back)? (to|from [A-Z]\w+ to)) (downtown )?<name>",
        "clause",
        "home",
    ),
    _rule(_HOME, r"(<I>live|<I am>living) (in (an?|the|my)|with (\w+ )?(my|roommates)|near|alone)\b"),
    _rule(_HOME, r"<I did>(moved|relocated) (back )?(to|into|in with)\b"),
    _rule(_HOME, r"(<I am>(originally )?from|<I>grew up in|<I>was born in) (the )?[A-Z]"),
    _rule(_HOME, r"<My>(new )?(apartment|house|flat|condo|home|place) in (the )?([A-Z]|sub|down)"),
    _rule(
        _WORK,
        r"(<I>work( (full|part)[- ]time)?|<I am>(working|employed)|<I did>started (a|my) new (job|position|role))"
        r" as (an?|the) <occupation>",
        "clause",
        "occupation",
    ),
    _rule(
        _WORK,
        r"(<I>work( (full|part)[- ]time)?|<I am>(working|employed)) (at|for|by) <name>",
        "clause",
        "employer",
    ),
    _rule(
        _WORK,
        r"(<I>work|<I am>working) ((full|part)[- ]time|remotely|from home|(as|for|at) (an?|the|my)\b|in [a-z]+ing\b)",
    ),
    _rule(
        _WORK,
        r"<I did>(started|got|landed|accepted|quit|left|lost) (an?|my) (\w+ ){0,2}"
        r"(job|position|role|offer|promotion)\b",
    ),
    _rule(_WORK, r"<I did>(was |been |got )(promoted|hired|laid off)\b"),
    _rule(_WORK, r"<My>(new|current|previous|old|last) (job|role|position) (as|at|is|was)\b"),
    _rule(_WORK, r"<I did>(graduated (with|from|in|as|last)|(majored|minored) in|studied)\b"),
    _rule(_WORK, r"<I did>completed my (\w+ )?(degree|studies)\b"),
    _rule(
        _WORK,
        r"(<I>(have|hold)|<I did>(got|earned|received)) (an?|my) ([\w']+ ){0,2}"
        r"([Dd]egree|[Bb]achelor|[Mm]aster|Ph\.?D|PHD|[Dd]iploma|MBA|certificat)",
    ),
    _rule(_WORK, r"<I am>(studying|majoring in|pursuing|enrolled)\b"),
    _rule(_WORK, r"<I am>an? ([\w-]+ ){0,3}<profession>\b"),
    _rule(_PEOPLE, r"<My><relative>('s name is| is (named|called)|,? named|,)? (?!I\b|I')[A-Z][a-z]+\b"),
    _rule(
        _PEOPLE,
        r"<start>[Mm]y <relative> <adverbs>"
        r"(is|are|was|were|has|works|lives|moved|got|loves|turned|stayed|started|gave|passed)\b",
    ),
    _rule(_PEOPLE, r"<I did>(have|got|adopted)? ?<count> ([\w-]+ ){0,2}<relative>s?\b"),
    _rule(
        _PEOPLE, r"(<I am>(married|engaged|single|divorced|pregnant)|<I did>(got|been) (married|engaged|divorced))\b"
    ),
    _rule(_PEOPLE, r"\b[A-Z][a-z]+(,| is| was) my <relative>\b"),
    _rule(
        _PREFERENCES,
        r"<I>(love|like|enjoy|prefer|adore|hate|dislike|detest|(can't|cannot) stand"
        r"|(don't|do not) (really )?(like|enjoy)|(don't|do not|never) (eat|drink)) <no talk>\w",
    ),
    _rule(_PREFERENCES, r"<I am>(obsessed with|an? (big|huge|avid|die-hard) fan of|fond of) <no talk>"),
    _rule(_PREFERENCES, r"<I am>(an? )?(vegan|vegetarian)\b"),
    _rule(
        _PREFERENCES, r"<My>(all-time )?favou?rite ([\w'-]+ ){1,4}(is|are|was|were|has to be)\b(?! (probably )?when)"
    ),
    _rule(_PREFERENCES, r"(\b(is|are|was)|'s|'re) (\w+ly |still |also )?(one of )?my (all-time )?favou?rites?\b"),
    _rule(
        _POSSESSIONS,
        r"<I did>(bought|purchased|ordered|received|picked up|acquired|inherited|own) <a thing>"
        r"((her|him|us|myself) )?(an?|my|the|some|new|<count>)\b",
    ),
    _rule(
        _POSSESSIONS,
        r"<I did>got <no code><a thing>((her|him|us|myself) )?((my|an?|some|the) new|an?) (?!(great|good)\b)\w",
    ),
    _rule(_POSSESSIONS, r"(<I>have|<I have>got|<I have>) ?<no code><a thing><count> \w"),
    _rule(_POSSESSIONS, r"\b(with|in|using|wearing|from|love|loving|got|have) my (brand[- ])?new <a new thing>"),
    _rule(_PLANS, r"<I am>((trying|starting|going) to plan|planning( to| on)?) (?!(it|this|that)\b)"),
    _rule(_PLANS, r"<I am>(scheduled to|about to start|saving (up )?for)\b"),
    _rule(_PLANS, r"<I>plan (to|on)\b"),
    _rule(
        _PLANS,
        r"<I am>(going|hoping|looking forward|flying|leaving|heading|attending|visiting|hosting|moving|starting)\b"
        r".*<when>",
    ),
    _rule(_PLANS, r"<I will>.*<when>"),
    _rule(
        _PLANS,
        r"<I>have an? ([\w'-]+ ){0,3}(trip|flight|appointment|meeting|interview|exam|test|wedding|party|concert|game"
        r"|tournament|deadline|date)\b.*<when>",
    ),
    _rule(_PLANS, r"<start>(we're|we are) (planning|going|getting) (to|on|an?|married)\b"),
    _rule(
        _EVENTS,
        r"<I did><done> <no code>(?!(it|that|this|them|these|those|your|some|an? (few|bunch|lot|ton|couple))\b)\w",
    ),
    _rule(
        _EVENTS,
        r"<I have>been (taking|learning|practi[cs]ing|training|studying|playing|volunteering|attending"
        r"|working (on|at|as))\b",
    ),
)
