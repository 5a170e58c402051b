"""``python -m launch.info`` is the command ``mdfl info`` of a checkout: `mdfl_jax/cli/info.py`."""

import sys

if __name__ == "__main__":
    if not __package__:
        print("error: start it as mdfl info", file=sys.stderr)
        sys.exit(2)
    from mdfl_jax.cli import entry

    entry.start("info")
