"""The bi-temporal engine: facts with the time they hold in the world and the time they were believed.

`claims` are what episodes say. `timeline` makes of the claims on one slot the facts that follow, `ledger` keeps every
version of them, `stores` holds the rows. `extraction` reads claims by rules, `reading` finds what a question needs.
"""

from longmemeval.memory.engram.engine import Forgotten
from longmemeval.memory.engram.standalone import Engram

__all__ = ["Engram", "Forgotten"]
