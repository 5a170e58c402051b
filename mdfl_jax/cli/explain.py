"""Explains in one line what was wrong with a command line or with the config file that it names."""

import os
import re
import traceback

from absl import flags

from mdfl_jax.core.errors import UserError


def explain(error: BaseException, given: str, keys: list[str]) -> str:
    """Return one line for a parsing error, which names the line of the config file or the flag that caused it."""
    path = given.split(":")[0]
    chain = [error]
    while follow := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(follow)
    if ",scale=" in given and "get_config() takes 0 positional arguments" in str(chain[-1]):  # the scale is its first
        return f"--scale={given.partition(',scale=')[2]}: {path} has no presets"
    for link in reversed(chain):  # ml_collections and absl wrap what a config file raises, in an error of its own type
        if isinstance(link, UserError):
            return f"--config={given}: {link}"
    for link in chain:
        trace = traceback.extract_tb(link.__traceback__)
        if lines := [frame.lineno for frame in trace if os.path.abspath(frame.filename) == os.path.abspath(path)]:
            return f"{path}:{lines[-1]}: {type(link).__name__}: {link}".rstrip(": ")
    if keys:
        from mdfl_jax.config.resolve import check_key  # imports JAX, which not every command needs

        try:
            [check_key(key) for key in keys]
        except UserError as unknown:
            return str(unknown)
    if value := re.match(r"flag --config\.([\w.]+)=(.*?): ", str(error), re.DOTALL):
        from mdfl_jax.config.resolve import check_key, in_words

        return f"{value.group(1)} is {value.group(2)!r}; it must be {in_words(check_key(value.group(1)).type)}"
    if not isinstance(error, flags.Error) or str(error).startswith("flag --config="):
        return f"--config={given}: {type(chain[-1]).__name__}: {chain[-1]}"
    return re.sub(r"\('Non-boolean argument to boolean flag', .*\)", "it must be true or false", str(error))
