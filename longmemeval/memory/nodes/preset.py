"""The preset `typed-nodes`."""

from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.nodes.node_memory import TypedNodes, node_parts
from longmemeval.memory.nodes.parameters import NodeParameters

TYPED_NODES = MemoryDefinition(
    "entries of typed nodes (events, attributes, processes of a life, relationships) and the best messages",
    NodeParameters,
    node_parts,
    TypedNodes,
)
