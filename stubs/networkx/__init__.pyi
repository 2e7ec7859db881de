from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

N = TypeVar("N")

class Graph(Generic[N]):
    def __init__(self, incoming_graph_data: Iterable[tuple[N, N]] = ...) -> None: ...
    def __contains__(self, n: object) -> bool: ...

def bfs_layers(G: Graph[N], sources: Iterable[N]) -> Iterator[list[N]]: ...
