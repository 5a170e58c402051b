"""What a Python program hands over to a study in place of names and files: arrays, a model, a graph, a table.

Each object becomes what a field can name: arrays a data source, a model a member of its registry, a graph and a table
the content of a file. So the readers of files check it, and a run is named by its content.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from ml_collections import ConfigDict

from mdfl_jax.config.resolve import default_config
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.sweep_text import split_axes
from mdfl_jax.data import sources
from mdfl_jax.models import adapters
from mdfl_jax.networks import fixed
from mdfl_jax.traces import loading
from mdfl_jax.traces.formats.tables import has_contacts

_GIVEN = {
    "data": ("data.name", sources.known_data),
    "model": ("model.name", adapters.known_model),
    "graph": ("graph.file", fixed.graph_file),
    "trace": ("trace.file", loading.table_file),
}
"""The objects, with the field that names each, and what makes it known by a name inside a context."""


@contextlib.contextmanager
def known_objects(config: ConfigDict, **objects: Any) -> Iterator[ConfigDict]:
    """Yield a configuration that names the objects of a Python program, which are known inside the context.

    Args:
      config: the configuration; it stays as it is.
      objects: data, model, graph and trace, as for `mdfl_jax.run`; None: not given.

    Raises:
      UserError: if an object is given in two ways, or cannot be used.
    """
    complete, default = config.copy_and_resolve_references(), default_config()
    swept = {path for paths in split_axes(complete.sweep) for path in paths}
    with contextlib.ExitStack() as stack:
        for what, value in objects.items():
            if value is None:
                continue
            field, known_as = _GIVEN[what]
            section, name = field.split(".")
            if complete[section][name] != default[section][name]:
                raise UserError(f"{what} is given and {field} is {complete[section][name]!r}; allowed: one of them")
            if field in swept:
                raise UserError(f"{what} is given, and sweep varies {field}; allowed: one of them")
            complete[section][name] = stack.enter_context(known_as(value))
        network = complete.network
        if objects.get("graph") is not None and "network.graph" not in swept:
            if network.graph not in ("", "file"):
                raise UserError(f"graph is given and network.graph is {network.graph!r}; allowed: one of them")
            network.graph = "file"
        is_default = all(network[name] == default.network[name] for name in ("mobility", "world"))
        if objects.get("trace") is not None and is_default and not swept & {"network.mobility", "network.world"}:
            network.mobility = "contacts" if has_contacts(map(str, objects["trace"].columns)) else "trace"
        yield complete
