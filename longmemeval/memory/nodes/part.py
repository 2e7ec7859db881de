"""The parts of a set of nodes: the entries (`nodes.json`) and their vectors."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from longmemeval.core.part_options import PartOptions
from longmemeval.memory.asking import MAX_TOKENS, Evidence, Extracted, gather_limited
from longmemeval.memory.nodes.extraction.chat import NodeExtractor
from longmemeval.memory.nodes.extraction.rules import VERSION, rule_entries
from longmemeval.memory.nodes.library import SHIPPED, NodeSet, shipped_nodes
from longmemeval.memory.nodes.schema import Entry, NodesFile, decode_entries, encode_entries, text_of
from longmemeval.records import Haystack, Message
from longmemeval.storage.messages import thread_ids
from longmemeval.storage.messages_part import MESSAGES
from longmemeval.storage.parts import ModelPart, PartInput, PartOutput, PartTools, Stored
from longmemeval.storage.vector_index import VectorItem
from longmemeval.storage.vectors_part import VectorsPart


class NodesPart(ModelPart[NodesFile]):
    """The entries of all nodes of a set.

    Args:
        nodes: the set. The part of a shipped set has its name; that of another is `nodes-` with the start of a hash.
    """

    option = "node_model"
    figure_names = ("sessions times nodes for the node model",)
    prompt_tokens, reply_tokens, most_reply_tokens = 700, 600, MAX_TOKENS
    share = 1.6  # By rules.

    def __init__(self, nodes: NodeSet) -> None:
        self.nodes, self.calls_per_session = nodes, len(nodes.nodes)
        shipped = (name for name in SHIPPED if nodes.hashes == shipped_nodes(name).hashes)
        self.name = next(shipped, f"nodes-{nodes.key}")
        self.title = "statements" if self.name == "statements" else "typed nodes"

    def settings(self) -> dict[str, Any]:
        """Return the beginning of the hash of each node."""
        return {"nodes": {name: digest[:12] for name, digest in self.nodes.hashes}}

    def recipe(self, tools: PartTools) -> dict[str, Any]:
        """Return nodes, extractor and its version."""
        model = tools.options.node_model
        if model == "rules":
            return {"extractor": "rules", "version": VERSION, **self.settings()}
        return {**NodeExtractor(tools.chat_model(model), self.nodes).recipe, **self.settings()}

    async def make(self, source: PartInput, tools: PartTools) -> PartOutput:
        """Extract the entries of all sessions, in the order of the haystack, and drop those without evidence."""
        model = tools.options.node_model
        sessions = _sessions(source.haystack, source.messages)
        if model == "rules":
            by_rules = (rule_entries(session, messages, self.nodes.nodes) for session, messages in sessions)
            found = [Extracted(tuple(entries)) for entries in by_rules]
        else:
            extract = NodeExtractor(tools.chat_model(model), self.nodes).extract
            found = await gather_limited([partial(extract, session, messages) for session, messages in sessions])
        entries: list[Entry] = []
        dropped: Counter[str] = Counter()
        for result, (_, messages) in zip(found, sessions, strict=True):
            supported, unsupported = proven(result.items, messages)
            entries += supported
            dropped.update(result.dropped)
            dropped.update({"evidence": unsupported} if unsupported else {})
        notes = tuple(note for result in found for note in result.notes)
        return PartOutput(
            encode_entries(entries, dropped), notes=notes, stats={"entries": len(entries)}, dropped=dict(dropped)
        )

    def open(self, stored: Stored) -> NodesFile:
        """Return the entries.

        Raises:
            FixtureError: the part is damaged.
        """
        return decode_entries(stored.data(), stored.where)

    def shown(self, stored: Stored) -> str:
        """Show the entries by node, each with its day and evidence."""
        file = stored.part(self)
        lines = []
        for node in self.nodes.nodes:
            own = [entry for entry in file.entries if entry.node == node.name]
            lines.append(f"{node.name}: {node.summary} ({len(own)})")
            lines += [f'- {_shown_day(entry)}: {text_of(entry, node.shown)} | "{entry.evidence}"' for entry in own]
        dropped = [f"{number} for {reason}" for reason, number in file.dropped.items()]
        return "\n".join([*lines, *([f"discarded: {', '.join(dropped)}"] if dropped else [])])

    def contradictions(self, stored: Stored) -> Iterator[str]:
        """Yield a complaint for each entry whose evidence is not in the messages it names."""
        store = stored.part(MESSAGES)
        for number, entry in enumerate(stored.part(self).entries):
            if not all(message_id in store.positions for message_id in entry.message_ids):
                yield f"contains entry {number}, which is from a message that is not in db.json"
            elif not Evidence(
                (message_id, store.message(message_id).content) for message_id in entry.message_ids
            ).message_ids(entry.evidence):
                yield f"contains entry {number}, whose evidence is not in {', '.join(entry.message_ids)}"


def proven(entries: Sequence[Entry], messages: Sequence[Message]) -> tuple[list[Entry], int]:
    """Return the entries whose evidence is in `messages`, and the number of the others."""
    evidence = Evidence((message.message_id, message.content) for message in messages)
    supported = [entry for entry in entries if evidence.message_ids(entry.evidence)]
    return supported, len(entries) - len(supported)


def _sessions(haystack: Haystack, messages: Sequence[Message]) -> list[tuple[Any, list[Message]]]:
    by_thread: dict[str, list[Message]] = {name: [] for name in thread_ids(haystack)}
    for message in messages:
        by_thread[message.thread_id].append(message)
    return list(zip(haystack.sessions, by_thread.values(), strict=True))


def _shown_day(entry: Entry) -> str:
    return f"{entry.said_at:%Y-%m-%d}"


class NodeVectors(VectorsPart):
    """The vectors of the entries, each of the text by its node's embedding template."""

    index_name = "nodes"

    def __init__(self, nodes: NodesPart) -> None:
        self.nodes = nodes
        self.needs = (nodes,)
        self.name = f"{nodes.name}-vectors"

    def entries(self, source: PartInput, options: PartOptions) -> tuple[list[VectorItem], list[str]]:
        """Return each entry by its number, and the texts to embed."""
        entries = source.part(self.nodes).entries
        items = [VectorItem(f"entry:{number}", entry.thread_id, number) for number, entry in enumerate(entries)]
        templates = {node.name: node.embed for node in self.nodes.nodes.nodes}
        return items, [text_of(entry, templates[entry.node]) for entry in entries]
