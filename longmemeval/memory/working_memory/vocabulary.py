"""The vocabulary of the rules' patterns."""

from longmemeval.core.text.quantities import MONTHS, WEEKDAYS

_WEEKDAY = f"(?:{'|'.join(name.removesuffix('day') for name in WEEKDAYS)})day"
_MONTH = f"(?:{'|'.join(MONTHS)})"
_NUMBER = r"(?:two|three|four|five|six|seven|eight|nine|ten|\d+)"
_CONJUNCTION = "(?:and|but|because|since|so|as|that|plus|though|although|while|when) "
_CLAUSE_START = rf"(?:^|(?:[,;:(]| [-\u2013\u2014]) ?|\b{_CONJUNCTION})"
_ADVERBS = (
    "(?:(?:just|recently|finally|also|actually|really|currently|now|already|still|even|only|usually|always|absolutely"
    "|totally|definitely|particularly|especially|generally|mostly|personally|truly|both) )*"
)

CLAUSE_LEAD = rf"[ ,;:(\u2013\u2014-]*(?:{_CONJUNCTION})?"
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
