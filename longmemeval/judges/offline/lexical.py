"""A rule-based judge for runs without a network. It compares words, not meaning: no substitute for the official judge.

In an answer above 80 words only the first 20 and the last 40 count (`answer_text.counted`): an answer states its
result at one of its ends, and a text that repeats the history has the gold anywhere. Of these, what the answer denies,
leaves open, says of the past or of a difference does not count (`claims.py`). Numbers, dates and times are compared in
one notation (`core/text/quantities.py`), other words by their stems. The rules, in this order:

1. An unanswerable question: correct if the answer abstains as a whole (`refusal.abstains`), or ends in a refusal.
2. Any other question: an answer that abstains is wrong, and so is one that refuses and then guesses.
3. A preference rubric: correct if the answer has at least `MINIMUM_RUBRIC_RECALL` of the content words in the
   rubric's sentences about what the user would like. A text in which the user speaks is no advice.
4. A gold that begins with yes or no: correct if the answer says the same of the two.
5. A gold that is one of two options of the question ("…, A or B?"): correct if the conclusion names it first.
6. Otherwise correct if the words that count contain the gold, or one of the alternatives its text offers, word for
   word; or all its numbers, all items of a list, and at least `MINIMUM_RECALL` of its content words that are not in
   the question. If the conclusion has numbers, those of the gold must be among them. As in the official prompt, a
   number of days, weeks or months may be off by one in `temporal-reasoning`.

A right answer in other words, or in another language than English, counts as wrong; an incidental mention of the right
words may count as correct.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from longmemeval.core.files import sha256_file, sha256_text
from longmemeval.core.text.quantities import MONTHS, WEEKDAYS, plain_quantities
from longmemeval.core.text.words import content_words
from longmemeval.judges.definition import JudgeDefinition
from longmemeval.judges.offline import refusal
from longmemeval.judges.offline.comparison import (
    MINIMUM_RECALL,
    RULES_FILE,
    Comparison,
    advice,
    contains,
    counted,
    forms_of,
    lexical_rules,
    normalise,
    options_of,
    polarity_of,
    stated,
    stems_of,
    with_date_of,
)
from longmemeval.judges.offline.rules import RuleJudge, Verdict
from longmemeval.judges.protocol import JudgeIdentity, judge_id
from longmemeval.records import Gold, Question

# The part of an answer that it claims: without what it denies, leaves open, or says of a difference.
#
# "Not £45 but £38" claims 38, "solid oak, not quartz" claims no quartz, "rooms 14 and 23" leaves the room open, and
# "cheaper by £38" gives no price. A gold that itself denies something ("she never went"), and a question about a
# difference, are read as they are.

_LIMIT = re.compile(
    r"[,;:.!?\u2026](?=[\s*\"]|$)|\s[\u2014\u2013-]+\s|\u2014|[()\n]"
    r"|\b(?=(?:but|although|though|while|whereas|because|since|so)\b)"
    r"|\b(?=and (?:it|you|your|they|he|she|we|that|this|the|is|was|now)\b)"
    r"|(?<=\w) (?=(?:it|that|this)(?:'s| is| was)\b)"
)
"""Ends of clauses: a denial reaches no further."""
_DENIAL = re.compile(
    r"\b(?:not|never)\b(?! (?:only|just|until|till|before|to mention|least|sure|certain|far|so|too|including|counting"
    r"|later|more|less|all|necessarily|long|quite)\b)"
    r"|\bno longer\b|\brather than\b|\binstead of\b|\bas opposed to\b|\bneither\b"
)
_FORMER = re.compile(
    r"\bused to (?!\w+ing\b)"
    r"|\b(?:formerly|previously|originally)\b(?! (?:mentioned|said|told|noted|stated|shared|discussed))"
    r"|\b(?:moved|switched|changed|transferred|promoted|went|gone|rose|raised|increased|dropped|fell|up|down)"
    r"(?: \w+){0,3} from(?=.* to\b)"
)
"""Beginnings of values that hold no longer; after "from", up to "to"."""
_PAST = re.compile(r"\b(?:was|were|had)\b(?! (?:\w+ed|been|gone|to)\b)")
_NOW = re.compile(r"\b(?:now|currently|these days|nowadays|at the moment|at present|no longer|any ?more)\b")
_OF_THE_PAST = re.compile(
    r"\b(?:did|was|were|had|used|originally|previous\w*|former\w*|first|initial\w*|before|old(?! (?:is|am|are)\b)"
    r"|ago|last|since|until|start\w*|began|begin)\b"
)
"""Words of questions about something past, for which former values may be right."""
_CONTRAST = re.compile(r"^\W*not\b|\brather than\b|\binstead of\b|\bas opposed to\b")
"""Denials that count if the question itself denies something: "we don't open on Mondays" says when it is closed."""
_OF_DENIAL = re.compile(
    r"\b(?:not|never|closed?|shut|avoid|miss\w*|refus\w*|dislike|hate|stop\w*|quit|without|except|skip\w*|cancel\w*)\b"
    r"|n't\b"
)
_EXCEPTION = re.compile(r"\b(?:except|than(?<!rather than)|apart from|besides|unless|without|nothing but)\b")
"""Words that turn a denial into a claim: "nothing farther than Recife"."""
_SUBJECT = re.compile(r"\W*(?:[\w'$£€]+ ){1,6}(?:is|are|was|were) $")
"""A short subject before "not" or "no longer": "tenor is not your part" denies the tenor too."""
_OPEN = re.compile(
    r"\beither\b(?! way\b).*\bor\b|\bone of (?:the|those|these) (?:two|three|both)\b"
    r"|\b(?:mentioned|said|gave|given|named|listed|told me) both\b|\bboth\b.*\b(?:mentioned|listed|come up|came up)\b"
    r"|\bi (?:am not (?:sure|certain)|can not (?:tell|say)) (?:which|whether|if)\b"
    r"|\b(?:unclear|unsure) (?:which|whether)\b"
    r"|\bor (?:maybe|perhaps|possibly)\b|\b(?:could|may|might) be [^,.]{1,40} or\b"
    r"|\bin one (?:chat|session|conversation|message|place)\b.*\banother\b|\bat different (?:points|times)\b"
)
"""Sentences that leave open which of several values is right."""
_SENTENCE = re.compile(r"(?<=[.!?])[*_\")]*\s+|\n+")
_AMOUNT = r"[$£€]?\d+(?:[.:]\d+)*(?:st|nd|rd|th)?"
_DETERMINER = re.compile(r"^(?:(?:the|an?|my|your|his|her|their|our) )?")
_DIGIT = re.compile(r"\d")
_VALUE = rf"(?:(?:{'|'.join(MONTHS)}) )?{_AMOUNT}".lower()
_PAIR = re.compile(
    rf"(?<![\w.])(?P<first>{_VALUE})(?P<unit>(?: [a-z][a-z1]*)?),? (?:and|or|/)(?: (?:also|maybe|on|at))? "
    rf"(?P<second>{_VALUE})(?P<other>(?: [a-z][a-z1]*)?)"
)
_DAYS = "|".join(WEEKDAYS).lower()
_WEEKDAYS = re.compile(rf"\b(?:{_DAYS})s?(?:(?:,|,? and|,? or)(?: on| also on)? (?:{_DAYS})s?\b)+")
_COMPARATIVES = (
    "cheaper|dearer|higher|lower|faster|slower|longer|shorter|older|younger|heavier|lighter|farther|further|larger"
)
_DIFFERENCE = re.compile(
    rf"{_AMOUNT}(?: \w+){{0,2}} (?:(?:less|fewer|more) than|(?:{_COMPARATIVES})\b)"
    rf"|\b(?:{_COMPARATIVES}|less|more|up|down|rose|risen|fell|raised|increased|cut|dropped|reduced)\b"
    rf"(?: \w+){{0,3}} by (?:about |around )?{_AMOUNT}(?: every1\w+)?"
)
_OF_DIFFERENCE = re.compile(
    rf"\b(?:more|less|fewer|{_COMPARATIVES}|by how|difference|increase|grow\w*|change\w*|raise|discount|save|saved"
    r"|extra|improve\w*|between|reduc\w+|gain\w*|lose|lost)\b"
)
_ASKS_FOR_SEVERAL = re.compile(r"\border\b|\bboth\b|\bnames\b|\bbetween\b|\bwhich (?:two|three)\b")
_DENYING = re.compile(r"\b(?:not?|never|neither|nothing|none|without|either)\b|n't\b|\bor\b")


@lru_cache(maxsize=1 << 11)
def claimed(text: str, question: str, forms: tuple[str, ...], near: int = 0) -> str:
    """Return what a text claims, in lower case with plain quantities; cached, since runs repeat answers.

    Args:
        text: an answer, or sentences of it.
        question: the question.
        forms: the acceptable forms of the gold.
        near: allowed difference of a number from that of the gold.
    """
    whole = " ".join(forms)
    names = [form for form in forms if re.fullmatch(r"[A-Z][\w'-]+", form)]
    text = text.replace("\u2019", "'")
    for name in names:
        text = _without_other_name(text, name, question)
    text = text.lower().replace("cannot", "can not").replace("can't", "can not").replace("won't", "will not")
    text = text.replace("n't", " not").replace("i'm ", "i am ")
    if not _DENYING.search(whole.lower()):
        text = "\n".join(part for part in _SENTENCE.split(text) if not _OPEN.search(part))
        asked = question.lower()
        denial = _CONTRAST if _OF_DENIAL.search(asked) else _DENIAL
        text = _asserted(text, denial, former=not _OF_THE_PAST.search(asked) and " to " not in whole)
    text, asked = plain_quantities(text), question.lower()
    counts = bool(_DIGIT.search(text))
    if not _ASKS_FOR_SEVERAL.search(asked):
        if counts:
            text = _decided(text, {number for form in forms for number in _values(plain_quantities(form))}, near)
        for form in forms:
            if 0 < len(form.split()) <= 4:
                text = _without_parallel(text, form.lower(), asked)
        days = set(re.findall(_DAYS, whole.lower()))
        text = _WEEKDAYS.sub(lambda match: "" if set(re.findall(_DAYS, match[0])) - days else match[0], text)
    return text if not counts or _OF_DIFFERENCE.search(asked) else _DIFFERENCE.sub(" ", text)


def _asserted(text: str, denial: re.Pattern[str], *, former: bool) -> str:
    """Return the text without the denied parts of its clauses and, if `former`, without values of the past."""
    now = max((match.start() for match in _NOW.finditer(text)), default=0) if former else 0
    if not now and not denial.search(text) and not (former and _FORMER.search(text)):
        return text
    parts, start = [], 0
    for limit in [*(match.span() for match in _LIMIT.finditer(text)), (len(text), len(text))]:
        clause = text[start : limit[0]]
        if (denied := denial.search(clause)) and not _EXCEPTION.search(clause):
            clause = "" if _SUBJECT.match(clause[: denied.start()]) else clause[: denied.start()]
        if former and (past := _FORMER.search(clause)):
            clause = clause[: past.start()] + (
                clause[clause.rindex(" to ") :] if "from" in past[0] and " to " in clause else ""
            )
        if limit[0] <= now and _PAST.search(clause) and not _NOW.search(clause):
            clause = ""
        parts += [clause, text[slice(*limit)]]
        start = limit[1]
    return "".join(parts)


def _values(text: str) -> set[str]:
    return {value.lstrip("$£€") for value in re.findall(_VALUE, text)}


def _decided(text: str, right: set[str], near: int) -> str:
    """Return the text without pairs of a right value and another of the same unit."""
    numbers = {int(value) for value in right if value.isdigit() and len(value) < 20}
    accepted = right | {str(number + step) for number in numbers for step in range(-near, near + 1)}

    def kept(match: re.Match[str]) -> str:
        first, second = (match[place].lstrip("$£€") for place in ("first", "second"))
        units = {match["unit"].strip().rstrip("s"), match["other"].strip().rstrip("s")} - {""}
        alike = len(units) < 2 or not match["unit"]
        return " " if alike and len({first, second} & accepted) == 1 else match[0]

    return _PAIR.sub(kept, text)


def _without_other_name(text: str, name: str, question: str) -> str:
    """Return the text without the name where another name stands beside it: "Tenerife and Recife"."""
    if name not in text or not (" and " in text or " or " in text):
        return text
    beside = re.compile(
        rf"\b(?P<before>[A-Z][\w'-]+),? (?:and|or)(?: also)? (?:(?:in|on|at|to|the) )*{name}\b"
        rf"|\b{name},? (?:and|or)(?: also)? (?:(?:in|on|at|to|the) )*(?P<after>[A-Z][\w'-]+)"
    )
    return beside.sub(lambda match: match[0] if (match["before"] or match["after"]) in question else " ", text)


def _without_parallel(text: str, value: str, question: str) -> str:
    """Return the text without the value where another is joined to it: "on payments and on search", "oak or quartz"."""
    value = _DETERMINER.sub("", value)
    if value not in text or value[:1] in "$£€0123456789" or not (" and " in text or " or " in text):
        return text
    value = re.escape(value)
    beside = re.compile(
        rf"\b(?P<place>on|in|at|with|for|to|from) [\w' -]{{2,40}} and (?:also )?(?P=place) (?:the )?{value}(?!\w)"
        rf"|\b(?P<word>[a-z][\w'-]+) (?:and|or)(?: also)? {_DETERMINER.pattern[1:]}{value}(?!\w)"
        rf"|\b{value} or (?!so\b|some|thereabouts|more\b|similar)[a-z]"
    )
    return beside.sub(lambda match: match[0] if match["word"] and match["word"] in question else " ", text)


LEXICAL_JUDGE = "offline/lexical"
MINIMUM_RUBRIC_RECALL = 0.25

_HOW_LONG = re.compile(r"\bhow (?:many (?:days?|weeks?|months?|years?|hours?)|long|old)\b")


@cache
def lexical_judge() -> RuleJudge:
    """Return the judge that applies the rules above, without a model; never official."""
    rules_sha256 = sha256_text(sha256_file(RULES_FILE) + refusal.rules_sha256())
    parameters = {"minimum_recall": MINIMUM_RECALL, "minimum_rubric_recall": MINIMUM_RUBRIC_RECALL}
    identity = JudgeIdentity(
        id=judge_id("offline-lexical", rules_sha256, LEXICAL_JUDGE, parameters),
        model=LEXICAL_JUDGE,
        templates=f"lexical rules v{lexical_rules().version}",
        templates_sha256=rules_sha256,
        parameters=parameters,
        official=False,
    )
    return RuleJudge(identity, grade)


LEXICAL = JudgeDefinition(rules=lexical_judge, compares_words=True)


def grade(question: Question, gold: Gold, hypothesis: str) -> Verdict:
    """Apply the rules to one answer."""
    abstains = refusal.abstains(hypothesis)
    if gold.abstention:
        declines = abstains or refusal.ends_in_refusal(hypothesis)
        return Verdict(declines, "abstains" if declines else "does not abstain")
    if abstains:
        return Verdict(False, "abstains")
    if refusal.guesses(hypothesis):
        return Verdict(False, "a guess after a refusal")
    text = str(gold.answer)
    if gold.question_type == "single-session-preference":
        recall = _rubric_recall(question.text, text, hypothesis)
        return Verdict(recall >= MINIMUM_RUBRIC_RECALL, f"rubric recall {recall:.2f}")
    asserted = stated(hypothesis)
    if (right := polarity_of(text)) and (stated_polarity := _polarity_stated(hypothesis, asserted)):
        return Verdict(right == stated_polarity, f"says {stated_polarity}")
    if options := options_of(question.text, text):
        first = _named_first(asserted, *options)
        if first is not None:
            return Verdict(first, "names the right option first" if first else "names the other option first")
    near = int(gold.question_type == "temporal-reasoning" and bool(_HOW_LONG.search(question.text.lower())))
    forms = tuple(forms_of(question.text, text))
    whole, conclusion = counted(hypothesis), " ".join(asserted)
    words = normalise(claimed(with_date_of(text, whole), question.text, forms, near))
    concluded = words
    if conclusion != whole.lower():
        concluded = normalise(claimed(with_date_of(text, conclusion), question.text, forms, near))
    compare = Comparison(question.text, words, concluded, near)
    verdicts = [compare.verdict(form) for form in forms]
    return next((verdict for verdict in verdicts if verdict.label), verdicts[0])


def _polarity_stated(answer: str, asserted: Sequence[str]) -> str:
    return next((found for text in (*asserted[:1], answer, *asserted[-1:]) if (found := polarity_of(text))), "")


def _named_first(asserted: Sequence[str], right: set[str], other: set[str]) -> bool | None:
    """Return whether the first sentence about either option names the right one first; None without such a sentence."""
    for sentence in asserted:
        stems = content_words(sentence)
        right_place = next((place for place, stem in enumerate(stems) if stem in right), None)
        other_place = next((place for place, stem in enumerate(stems) if stem in other), None)
        if right_place is not None or other_place is not None:
            return right_place is not None and (other_place is None or right_place < other_place)
    return None


def _rubric_recall(question: str, rubric: str, answer: str) -> float:
    sentences = [normalise(sentence) for sentence in re.split(r"(?<=[.!?])\s", rubric)]
    liked = [sentence for sentence in sentences if not contains(sentence, ["not", "prefer"])] or sentences
    content = {
        stem for sentence in liked for stem in stems_of([w for w in sentence if w not in lexical_rules().rubric_words])
    }
    content -= set(stems_of(normalise(question)))
    return len(content.intersection(stems_of(normalise(advice(answer))))) / len(content) if content else 0.0
