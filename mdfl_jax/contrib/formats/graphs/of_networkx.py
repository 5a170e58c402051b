"""Reads the graph files that networkx writes: GraphML, GML, node-link JSON and edge lists with attributes in braces.

A link has the mixing weight of its attribute ``weight`` if all links have one. An arrow from i to j means: i hears j.
"""

import io
import json
import re
from collections.abc import Callable
from typing import Any

from mdfl_jax.core.errors import UserError
from mdfl_jax.networks.fixed import EDGE_LIST, GRAPH_FILES, Edges


def _edges(read: Callable[[Any, str], Any], what: str) -> Callable[[str], Edges]:
    """Return a reader of a text, of which ``read`` makes a graph with the module networkx."""

    def edges(text: str) -> Edges:
        import networkx  # a third of a second

        try:
            graph = read(networkx, text)
        except Exception as error:  # networkx raises errors of many types for damaged texts
            raise UserError(f"it is no {what} that networkx reads ({' '.join(str(error).split())[:200]})") from None
        found = [*graph.edges(data="weight")]
        pairs = [(i, j) for i, j, _ in found]
        loops = [i for i, j in pairs if i == j]
        if loops:
            raise UserError(f"client {loops[0]} has a link to itself; a list of links holds no self loops")
        given = [weight for _, _, weight in found if weight is not None]
        weights = list(map(float, given)) if len(given) == len(found) else []
        return Edges(pairs, weights, list(graph.nodes), graph.is_directed())

    return edges


def _node_link(networkx: Any, text: str) -> Any:
    content = json.loads(text)
    return networkx.node_link_graph(content, edges="edges" if "edges" in content else "links")


def _of_whole_names(networkx: Any, graph: Any) -> Any:
    """Return a graph whose names are whole numbers if all of them are texts of such."""
    if all(str(name).isdecimal() for name in graph):
        return networkx.relabel_nodes(graph, {name: int(name) for name in graph})
    return graph


def _edge_list(networkx: Any, text: str) -> Any:
    lines = [re.sub(r"^([^{]*?)[,;]([^{]*?)[,;]", r"\1 \2 ", line) for line in text.splitlines()]
    return _of_whole_names(networkx, networkx.parse_edgelist(lines))


def _graphml(networkx: Any, text: str) -> Any:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("a document type is refused")
    return _of_whole_names(networkx, networkx.read_graphml(io.BytesIO(text.encode())))


def _gml(networkx: Any, text: str) -> Any:
    return _of_whole_names(networkx, networkx.parse_gml(text, label=None if "label" not in text else "label"))


GRAPH_FILES.register(EDGE_LIST, doc="Edge lists of networkx: i j {attributes}.")(_edges(_edge_list, "edge list"))
GRAPH_FILES.register(".graphml", doc="GraphML.")(_edges(_graphml, "GraphML"))
GRAPH_FILES.register(".gml", doc="GML.")(_edges(_gml, "GML"))
GRAPH_FILES.register(".json", doc="Node-link JSON of networkx and D3.")(_edges(_node_link, "node-link JSON"))
