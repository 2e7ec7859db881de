"""Find the sentences of a user's message that are the user's own statements, and shorten them.

Chat histories are full of pasted text, stories, code and role play, all in the first person. A sentence that may not be
the user's own is left out: a wrong fact in a profile costs more than a missing one.
"""

import functools
import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from longmemeval.core.text.quantities import MONTHS, WEEKDAYS

MAX_CHARACTERS = 160
"""Maximum characters of an entry's text."""

MAX_MESSAGE = 2000
"""Maximum characters of a message that is read; longer ones are taken for pasted text."""

_ASK = (
    r"(?:(?:^|[.!?,\n])[ \t]*(?:(?:please|now|ok(?:ay)?|hey|hi|hello|so|and|then|i want|i need|i'd like|let's)[, ]+)*"
    r"|\b(?:you|please|help me)(?: please| to| also)? +)"
)
_ROLE_PLAY = re.compile(
    rf"{_ASK}(?:to )?(?:act (?:as|like)|pretend|role-?play|imagine (?:you|that|yourself|an?|the)|play the (?:role|part)"
    r"|from now on,? you|simulate|assume the (?:role|persona))\b"
    r"|\A[ \n]*you are (?:now )?an? (?!life-?saver|genius|star|gem|legend|angel|great|good|big|huge|wonderful)",
    re.IGNORECASE,
)
_DOCUMENT = (
    r"story|stories|script|scene|screenplay|poem|haiku|song|lyrics|rap|joke|dialogue|conversation|monologue|novel|chapter"
    r"|e-?mail|letter|message|text|reply|response|essay|article|blog|post|review|caption|tweet|speech|statement|summary"
    r"|paragraph|paper|report|resume|cv|bio|biography|description|case study|profile|code|function|program|disclaimer"
)
_TASK = re.compile(
    rf"{_ASK}(?:(?:re)?write|draft|compose|generate|create)\b[^.?!\n]{{0,60}}\b(?:{_DOCUMENT})s?\b"
    rf"|{_ASK}(?:translate|paraphrase|rephrase|reword|proofread|summari[sz]e|rewrite|continue)\b"
    rf"|{_ASK}(?:correct|fix|check|improve|edit) (?:my|the|this) (?:grammar|text|sentence|paragraph|writing|essay)\b",
    re.IGNORECASE,
)
_LETTER = re.compile(
    r"^(?:dear|hi|hello|hey)\b[^.!?\n]{0,40},\s*$|^(?:sincerely|(?:best|kind|warm) regards)\b", re.I | re.M
)
_SPEAKER_LINE = re.compile(r"^\W{0,3}[A-Z][\w .]{0,24}:\s+\S", re.MULTILINE)
_CODE = re.compile(r"```|[;{}][ \t]*$|^[ \t]*(?:import|def|class|function|SELECT|#include)\b|</\w+>", re.MULTILINE)

# From here on patterns read one line with single spaces.
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\b(?:Dr|Mr|Ms|St|vs|Mt|Jr|Sr|No)\.)(?<!\b(?:Mrs|e\.g|i\.e)\.)(?<!\bProf\.)"
    r"[\"')]* (?=[\"'(]*[A-Z0-9])"
)
_GREETING = re.compile(r"^(?:hi|hello|hey)(?: there)?[,.!]* ", re.IGNORECASE)
_INTRODUCTION = re.compile(r"(?:I'm|I am) [A-Z]")
_LEAD_IN = re.compile(
    r"^(?:(?:by the way|btw|speaking of (?:which|that|[\w ']{1,40}(?=,))|oh|yeah|yes|yep|no|well|anyway|also|actually"
    r"|and|so|but|thanks|thank you|in fact|plus|besides|ok|okay|hmm|wow|haha|wait|to be honest|honestly|i mean)\b"
    r"[,.!]* )+",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"(?:[,;]| [-\u2013\u2014]| (?:and|so|but)) ?(?:(?:and|so|but) )?(?:I (?:was|am) |I'm |was |am )?"
    r"(?:(?:just|also) )*(?:wondering|hoping you|curious (?:if|about|whether))\b.*$"
    r"|(?:[,;]| [-\u2013\u2014]) ?(?:(?:and|so|but) )?(?:do|does|did|can|could|would|will|should|is|are|any|what|which"
    r"|how|where|when|who|why)\b[^?]*\?$",
    re.IGNORECASE,
)
_NOT_STATED = re.compile(
    r"^(?:can|could|would|will|do|does|did|is|are|what|which|how|where|who|why|should|shall|let|suppose|please)\b",
    re.IGNORECASE,
)
_ABOUT_THE_CHAT = re.compile(
    r"\byou(?:'ve| have)? (?:sent|mentioned|gave|given|suggested|recommended|said|wrote|provided|shared|listed)\b"
    r"|\byour (?:suggestion|recommendation|tip|advice|answer|help|response|idea)s?\b"
)
_HYPOTHETICAL = re.compile(
    r"\b(?:if|unless|would|wish|suppos(?:e|ing)|assum(?:e|ing)|let's say|scenario|hypothetical(?:ly)?"
    r"|for (?:example|instance)|might|maybe|perhaps|(?:is|was)(?:n't| not) true)\b|^say\b"
    r"|\b(?:story|novel|poem|song|letter|e-?mail|message|line|quote|slogan|motto)\b[^.!?]*:",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:I|my|My|me)\b")
_CLAUSE_BREAK = re.compile(
    r"(?:[;:]| [-\u2013\u2014]|(?<!^Hi),(?! [A-Z][a-z])) "
    r"| (?=(?:and|but|so|because|which|while|since|although|though) (?:I|my|we|it|he|she|they|has|have|was|is)\b)"
)
_CONJUNCTION = re.compile(r"^(?:and|but|so|because|which|while|since|although|though) ")


def is_role_play(message: str) -> bool:
    """Tell whether `message` asks the assistant to play a role: the rest of the session may then be fiction."""
    return _ROLE_PLAY.search(message[:MAX_MESSAGE]) is not None


def statements(message: str, first_person: re.Pattern[str] = _FIRST_PERSON) -> Iterator[str]:
    """Yield the sentences in which the user speaks of themself, without lead-in ("By the way,") and request.

    Args:
        message: the text of a user's turn.
        first_person: pattern of words; a statement must contain one of them.
    """
    if _is_pasted(message):
        return
    for raw_line in message.replace("\u2019", "'").splitlines():
        line = " ".join(raw_line.split())
        if line.startswith(">"):
            continue
        if line.endswith(":"):
            return  # the lines after the colon are quoted
        for sentence in sentences(_without_greeting(line)):
            statement = _REQUEST.sub("", without_lead_in(sentence)).strip()
            if _is_statement(statement, first_person):
                yield statement[0].upper() + statement[1:]


def sentences(line: str) -> list[str]:
    """Return the sentences of one line."""
    return _SENTENCE_END.split(line)


def without_lead_in(sentence: str) -> str:
    """Return `sentence` without a lead-in such as "Oh, well,"."""
    return _LEAD_IN.sub("", sentence)


def is_claimed(sentence: str, start: int) -> bool:
    """Tell whether `sentence` claims what follows character `start`, rather than supposing or quoting it."""
    before = sentence[:start]
    return _HYPOTHETICAL.search(before) is None and before.count('"') % 2 == 0


def _is_statement(sentence: str, first_person: re.Pattern[str]) -> bool:
    is_talk = sentence.endswith("?") or _NOT_STATED.match(sentence) or _ABOUT_THE_CHAT.search(sentence)
    return not is_talk and first_person.search(sentence) is not None


def _is_pasted(message: str) -> bool:
    signs = (_TASK, _LETTER, _CODE)
    return any(sign.search(message) for sign in signs) or len(_SPEAKER_LINE.findall(message)) > 1


def _without_greeting(line: str) -> str:
    greeting = _GREETING.match(line)
    if greeting is None:
        return line
    rest = line[greeting.end() :]
    # The greeting tells "Hi, I'm Anna" from "I'm Italian".
    return f"Hi, {rest}" if _INTRODUCTION.match(rest) else rest


def clause(sentence: str, start: int, end: int) -> str:
    """Return the clause, or clauses, of `sentence` that contain the characters from `start` to `end`."""
    breaks = [match.span() for match in _CLAUSE_BREAK.finditer(sentence)]
    first = max((after for _, after in breaks if after <= start), default=0)
    last = min((before for before, _ in breaks if before >= end), default=len(sentence))
    return _bounded(sentence[first:last])


def shortened(sentence: str, start: int, end: int) -> str:
    """Return `sentence` if it is short enough, else as many clauses around `start` to `end` as fit, next ones first."""
    if len(sentence) <= MAX_CHARACTERS:
        return sentence
    breaks = [match.span() for match in _CLAUSE_BREAK.finditer(sentence)]
    starts = [0, *(after for _, after in breaks)]
    stops = [*(before for before, _ in breaks), len(sentence)]
    first = max(index for index, offset in enumerate(starts) if offset <= start)
    last = min(index for index, offset in enumerate(stops) if offset >= end)
    while last + 1 < len(stops) and stops[last + 1] - starts[first] <= MAX_CHARACTERS:
        last += 1
    while first > 0 and stops[last] - starts[first - 1] <= MAX_CHARACTERS:
        first -= 1
    return _bounded(sentence[starts[first] : stops[last]])


def _bounded(text: str) -> str:
    text = _CONJUNCTION.sub("", text)
    text = text[0].upper() + text[1:]
    if len(text) <= MAX_CHARACTERS:
        return text
    return text[: MAX_CHARACTERS - 2].rsplit(" ", 1)[0] + " …"


# The vocabulary of the rules' patterns.

_WEEKDAY = f"(?:{'|'.join(name.removesuffix('day') for name in WEEKDAYS)})day"
_MONTH = f"(?:{'|'.join(MONTHS)})"
_NUMBER = r"(?:two|three|four|five|six|seven|eight|nine|ten|\d+)"
_LEADING = "(?:and|but|because|since|so|as|that|plus|though|although|while|when) "
_CLAUSE_START = rf"(?:^|(?:[,;:(]| [-\u2013\u2014]) ?|\b{_LEADING})"
_ADVERBS = (
    "(?:(?:just|recently|finally|also|actually|really|currently|now|already|still|even|only|usually|always|absolutely"
    "|totally|definitely|particularly|especially|generally|mostly|personally|truly|both) )*"
)

CLAUSE_LEAD = rf"[ ,;:(\u2013\u2014-]*(?:{_LEADING})?"
"""Pattern of what a match of `<start>` may contain before the clause itself."""

BLOCKS = {
    "start": _CLAUSE_START,
    "I": f"{_CLAUSE_START}I {_ADVERBS}",
    "I am": f"{_CLAUSE_START}I(?:'m| am) {_ADVERBS}",
    "I have": f"{_CLAUSE_START}I(?:'ve| have) {_ADVERBS}",
    # In front of a past tense or a participle: "I", "I've", "I had", with or without "recently", "finally", …
    "I did": f"{_CLAUSE_START}I(?:'ve|'d| have| had)? {_ADVERBS}",
    "I will": f"{_CLAUSE_START}I(?:'ll| will) {_ADVERBS}",
    "My": r"\b[Mm]y ",
    "adverbs": _ADVERBS,
    # Proper names; the captured name is the value that supersedes an older one.
    "name": r"(?P<value>[A-Z][\w'-]+(?: [A-Z][\w'-]+){0,2})",
    "no nationality": (
        "(?!(?:American|British|English|Scottish|Irish|Canadian|Australian|Indian|Chinese|Japanese|Korean|German|French"
        "|Italian|Spanish|Portuguese|Mexican|Brazilian|Russian|Ukrainian|Polish|Dutch|Swedish|Norwegian|Danish|Turkish"
        r"|Greek|Asian|African|European|Latina|Latino|Muslim|Catholic|Christian|Jewish|Hindu|Buddhist)\b)"
    ),
    "occupation": r"(?P<value>[a-z][\w-]*(?: (?!(?:at|for|in|and|with|but|who|so|last|this)\b)[\w-]+){0,3})",
    "count": f"(?:an?|several|{_NUMBER})",
    "profession": (
        "(?:student|teacher|nurse|doctor|engineer|developer|designer|manager|lawyer|writer|artist|musician|accountant"
        "|analyst|consultant|chef|photographer|scientist|researcher|professor|freelancer|entrepreneur|programmer"
        "|therapist|specialist|assistant|administrator|coordinator|technician|librarian)"
    ),
    "relative": (
        "(?:(?:best|close|old|older|younger|little|big|twin|step|late|new|dear|good)[- ])*"
        "(?:sister|brother|mom|mum|mother|dad|father|(?:grand)?parents|wife|husband|partner|spouse|fianc[e\u00e9]e?|girlfriend"
        "|boyfriend|son|daughter|kids|children|baby|grandma|grandpa|grandmother|grandfather|aunt|uncle|cousin|niece"
        "|nephew|(?:sister|brother|mother|father)-in-law|friend|roommate|boss|manager|colleague|co-?worker|neighbou?r"
        "|therapist|dog|cat|puppy|kitten|parrot|rabbit|hamster|horse)"
    ),
    # No word for something in the conversation itself may follow: "I like that idea", "I love how easy it is".
    "no talk": (
        r"(?!(?:(?:\w+ing )?(?:it|this|that|these|those|them|his|her|their)|how|what|when|your?|both|all"
        r"|to (?:know|see|hear|ask|learn|get|try|have|add)"
        r"|the (?:\w+ )?(?:idea|sound|suggestion|thought|option|way|look|recommendation|tip|list|fact)s?)\b)"
    ),
    # Only a thing one can own may follow.
    "a thing": (
        r"(?!(?:it|them|that|this|these|those)\b"
        r"|(?:an?|some|the|my|any|no|two|three|\d+) (?:\w+ ){0,2}(?:question|idea|feeling|problem|issue|lot|hard|tough"
        r"|time|few|couple|bit|bunch|ton|chance|hang|sense|call|e-?mail|message|notification|job|offer|promotion|good|great"
        r"|trouble|doubt|concern|point|preference|plan|meeting|appointment|interview|trip|flight|deadline|exam|test"
        r"|class|friend|sister|brother|son|daughter|cold|headache|degree|background|look|understanding|better|answer"
        r"|response)s?\b)"
    ),
    # "my new job" and "my new routine" are not possessions.
    "a new thing": (
        "(?!(?:job|role|position|routine|goal|boss|home|house|apartment|schedule|year|life|friend|hobby|diet|city"
        r"|neighbou?r|manager|team|project|business)\b)[\w'-]+"
    ),
    # Nothing about a program the user wants help with may follow.
    "no code": (
        r"(?!.*\b(?:codes?|scripts?|functions?|errors?|exceptions?|servers?|databases?|datasets?|arrays?|pointers?"
        r"|variables?|compiler|dataframes?|columns?|SQL|API|JSON|CSV|HTML|CSS|JavaScript|Python|GitHub|Docker)\b)"
    ),
    "when": (
        r"\b(?:tomorrow|tonight|next (?!time|step|question|thing|one|level)\w+|later (?:today|this \w+)"
        r"|this (?:coming |upcoming )?(?:week(?:end)?|month|year|spring|summer|fall|autumn|winter|afternoon|evening)"
        rf"|(?:on|this|next|by|until) {_WEEKDAY}s?|(?:in|on|by|until) (?:the )?(?:end of )?{_MONTH}"
        rf"|in (?:a|{_NUMBER}) (?:few |couple of )?(?:days?|weeks?|months?|years?))\b"
    ),
    "done": (
        "(?:attended|finished|visited|completed|went (?:to|on|for)|ran|participated in|took part in|met|celebrated"
        "|joined|began|travell?ed|flew|volunteered|signed up|adopted|hosted|organi[sz]ed|reorgani[sz]ed|converted"
        "|replaced|repaired|fixed|installed|renovated|redeemed|sold|donated|won|lost|earned|learned to|watched|saw|read"
        "|played|baked|cooked|built|painted|planted|hiked|climbed|swam|cycled|performed|presented|published|submitted"
        "|helped|gave|given|been to|seen|took|taken|started|set up|broke|injured|returned)"
    ),
}
"""Regular expressions by the names under which rules use them."""


# The rules of the rules updater, as data: a sentence that matches a rule becomes an entry of the rule's section.
#
# Patterns are regular expressions in which `<word>` stands for a block of the vocabulary and every group is
# non-capturing. Sentences have single spaces and straight apostrophes.

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
    pattern: str
    keep: Keep
    topic: str

    def find(self, sentence: str) -> Found | None:
        """Return the place of a statement of this kind in `sentence`, without the conjunction or comma before it."""
        match = _compiled(self.pattern).search(sentence)
        if match is None:
            return None
        lead = _CLAUSE_LEAD.match(sentence, match.start(), match.end())
        return Found(lead.end() if lead else match.start(), match.end(), match["value"] if self.topic else "")


def _rule(keywords: tuple[str, ...], pattern: str, keep: Keep = "sentence", topic: str = "") -> Rule:
    groups = re.sub(r"\((?!\?)", "(?:", pattern)
    expanded = re.sub(r"<([\w ]+)>", lambda block: BLOCKS[block[1]], groups)
    return Rule(keywords, expanded, keep, topic)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile the pattern of a rule when it is first looked for: most memories never do."""
    return re.compile(pattern)


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
