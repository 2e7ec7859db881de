"""The bi-temporal engine: facts with the time they hold in the world and the time they were believed.

A `Claim` is what an episode says. `timeline` resolves the claims on one slot into facts, `ledger` keeps every version
of them, `stores` holds the rows. `extraction` reads claims by rules or a chat model, `recall` finds what a question
needs.
"""

from longmemeval.memory.engram.engine import Forgotten
from longmemeval.memory.engram.standalone import Engram

__all__ = ["Engram", "Forgotten"]
