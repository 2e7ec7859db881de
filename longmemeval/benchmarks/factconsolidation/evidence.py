"""The facts that answer each question, derived by rule from the published lists, without a model.

A fact states a relation of a subject in a sentence template of MQuAKE. The current fact of a relation and subject is
the one with the largest serial number; the others are overruled. A question's relations are those of its template or,
with several hops, the sequence that leads from an entity of the question to the official answer: the only one in 362 of
400 questions, else that with the longest entity and the fewest hops. `evidence.json` has the serial numbers; they are
valid only for lists with the hashes below.
"""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

CONTEXT_SHA256 = {
    "6k": "e46cb14b53eedd71bf92762974a597d46b001157b6b769c03865dee9641818a1",
    "32k": "2a44d6ad3264a775596fe6de01994d6b348280303fdd964f82288e2c476a7409",
    "64k": "e2789821b46e66262caa5dd3bfb94d180576212e81819ec283a3e1dfdeabcf80",
    "262k": "9c8ce1ed911d25a3c9d52e5758d9a8d23fa769ded88c5e59dbc1e1a3f6eb1f10",
}
"""Hash of the text of each published list; both kinds of questions of a size share a list."""


class Evidence(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts about one question."""

    hops: tuple[tuple[int, ...], ...]
    """For each hop, the serial number of its current fact and then those of the facts that it overrules."""
    stale_answers: tuple[str, ...]
    """Other answers that the same relations give through an overruled fact."""
    status: Literal["ok", "stale-gold", "dead-end"] = "ok"
    """`ok`: the current facts give the official answer. `stale-gold`: they give another. `dead-end`: they stop before
    the last hop. The official answer then needs an overruled fact."""


@cache
def all_evidence() -> dict[str, Evidence]:
    """Return the evidence by the id of the question without `factconsolidation_`, such as `sh_6k_no0`."""
    return msgspec.json.decode(Path(__file__).with_name("evidence.json").read_bytes(), type=dict[str, Evidence])
