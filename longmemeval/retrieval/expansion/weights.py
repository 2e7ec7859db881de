"""What the words of one history weigh, and the texts that its rules pick by that weight."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from longmemeval.words import content_words

_FEWEST_PHRASES, _MOST_PHRASES = 3, 8
_WORDS_TO_A_PHRASE = 12
_LONGEST_PHRASE = 4
_MOST_SENTENCES = 2
_LONGEST_SENTENCE = 400
"""Characters of a sentence in a summary: pasted text may have no end of a sentence."""
_LEAD = 0.25
"""What standing first adds to a sentence's weight; the next ones get a half, a third, … of it."""

_TOKEN = re.compile(r"[^\W\d_]\w*(?:['-]\w+)*|\d[\w.,:%-]*\w|\d")
_GAP = re.compile(r" +")
_PAST = re.compile(r"..[^e]ed$")
"""A past tense or a participle: that begins what a noun ends ("reclaimed wood shelf"), and ends nothing."""
# Words that are no stop words of lexical matching but begin, end or fill phrases without naming anything.
_NOT_NOUNS = frozenset(
    re.findall(
        r"\S+",
        """
        able above achieving across actually add added adding adorable again agree ahead almost along already
        although always amazing among another anyone anything appreciate aren't around ask away awesome back
        based became become behind believe below beside best bet better beyond big bit bought bring brought buy
        call came can't certain check checked choose come coming compare consider cool couldn't couple create
        curious currently decide decided definitely describe didn't different discuss doesn't don't easier
        either else enjoy enjoyed enjoying enough ensure especially even ever every everyone everything excited
        explain far feel feeling feels felt few find finding fine first following forward found fun gave get
        gets getting give given giving glad go goes going gone good got great guess handle happy hard hasn't
        haven't he's hear heard hello help helped helping hey hi hope hoping however huge i'd i'll i'm i've idea
        ideas important improve include including increase inside instead interested interesting isn't it's keep
        keeping kind know last later learn learning leave leaving let let's like liked listen listening little
        long look looking looks lot lots love loved made make makes making may maybe mean means meant mentioned
        might mind must near need needed needs neither never new next nice notice noticed often oh ok okay old
        one ones organize outside participating per perfect pick picked plan planned planning please possible
        pretty prevent preventing probably provide provided put quite rather read reading ready really recent
        remember replace replaced respond rid right run saw second see seem seems seen send serve several share
        she's shouldn't show since something sometimes soon sort sound sounding sounds special specific start
        started starting stay staying still stuff suggest super sure sweet take takes taking talk tell thank
        thanks that's there's therefore they're thing things think thinking thought till today tomorrow tonight
        took total tough toward towards tried try trying understand upfront upon us use used useful using
        usually via wake waking want wanted wanting wants wasn't watching way ways we're we've well went weren't
        what's whether wish within without won't wonder wondering work working worried worth would wouldn't wow
        write wrote yeah yes yesterday yet you're you've yup
        """,
    )
)


class _Phrase(Struct, frozen=True):
    text: str
    stems: tuple[str, ...]


class WordWeights:
    """Weights of words inside one history.

    Args:
        texts: the texts of all its units.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        held = Counter(word for text in texts for word in set(content_words(text)))
        # Never negative, and not zero for a word of every unit: Robertson and Zaragoza 2009.
        self._idf = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in held.items()}

    def summary(self, sentences: Sequence[str]) -> str:
        """The one or two sentences that hold most of the weight of all `sentences`, in their order.

        A sentence weighs what its distinct words do (count times idf) by the root of their number, and more when it
        leads; the second one is chosen by the words that the first has not.
        """
        words = [frozenset(content_words(sentence)) for sentence in sentences]
        counts = Counter(word for sentence in sentences for word in content_words(sentence))
        chosen: list[int] = []
        covered: frozenset[str] = frozenset()
        while len(chosen) < _MOST_SENTENCES:
            weights = [self._sentence_weight(own, own - covered, counts, place) for place, own in enumerate(words)]
            best = max(range(len(weights)), key=weights.__getitem__, default=None)
            if best is None or weights[best] == 0:
                break
            chosen.append(best)
            covered |= words[best]
        return " ".join(_shortened(sentences[place]) for place in sorted(chosen))

    def keyphrases(self, sentences: Sequence[str]) -> tuple[str, ...]:
        """The three to eight heaviest word sequences of `sentences` that may be nouns with what belongs to them.

        A phrase weighs its count times the idf of its words, by the root of their number. The longer the text, the
        more phrases; none that consists of words of a heavier one.
        """
        phrases = [phrase for sentence in sentences for phrase in _phrases(sentence)]
        counts = Counter(phrase.stems for phrase in phrases)
        first = {phrase.stems: phrase for phrase in reversed(phrases)}
        ordered = dict.fromkeys(phrase.stems for phrase in phrases)
        heaviest = sorted(ordered, key=lambda stems: -counts[stems] * self._phrase_weight(stems))
        length = sum(len(phrase.stems) for phrase in phrases)
        wanted = min(_MOST_PHRASES, max(_FEWEST_PHRASES, length // _WORDS_TO_A_PHRASE))
        chosen: list[tuple[str, ...]] = []
        for stems in heaviest:
            if len(chosen) == wanted:
                break
            if not any(set(stems) <= set(other) for other in chosen):
                chosen.append(stems)
        return tuple(first[stems].text for stems in chosen)

    def _sentence_weight(self, own: frozenset[str], new: Iterable[str], counts: Counter[str], place: int) -> float:
        # Sorted: the order of a set follows the hash seed, and so would the last bit of a sum.
        weight = sum(counts[word] * self._idf[word] for word in sorted(new))
        return weight / math.sqrt(len(own)) * (1 + _LEAD / (place + 1)) if own else 0.0

    def _phrase_weight(self, stems: tuple[str, ...]) -> float:
        return sum(self._idf[stem] for stem in stems) / math.sqrt(len(stems))


def _shortened(sentence: str) -> str:
    if len(sentence) <= _LONGEST_SENTENCE:
        return sentence
    return sentence[: _LONGEST_SENTENCE - 2].rsplit(" ", 1)[0] + " \u2026"


def _phrases(sentence: str) -> list[_Phrase]:
    """Runs of words that may be nouns or belong to one, unbroken by other words and signs; the last of a long run."""
    runs: list[list[re.Match[str]]] = [[]]
    previous: re.Match[str] | None = None
    for token in _TOKEN.finditer(sentence):
        joined = previous is not None and _GAP.fullmatch(sentence, previous.end(), token.start())
        if not joined or not _may_name(token[0]):
            runs.append([])
        if _may_name(token[0]):
            runs[-1].append(token)
        previous = token
    return [_phrase(sentence, run) for run in map(_named_part, runs) if run]


def _named_part(run: list[re.Match[str]]) -> list[re.Match[str]]:
    while run and _PAST.search(run[-1][0]):
        run = run[:-1]
    return run[-_LONGEST_PHRASE:] if any(token[0][0].isalpha() for token in run) else []


def _phrase(sentence: str, run: list[re.Match[str]]) -> _Phrase:
    stems = tuple(stem for token in run for stem in content_words(token[0]))
    return _Phrase(sentence[run[0].start() : run[-1].end()], stems)


def _may_name(word: str) -> bool:
    folded = word.casefold()
    return folded not in _NOT_NOUNS and not folded.endswith("ly") and len(folded) > 1 and bool(content_words(folded))
