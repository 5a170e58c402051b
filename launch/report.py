"""``python -m launch.report`` is the command ``mdfl report`` of a checkout: `mdfl_jax/cli/report.py`."""

import sys

if __name__ == "__main__":
    if not __package__:
        print("error: start it as mdfl report", file=sys.stderr)
        sys.exit(2)
    from mdfl_jax.cli import entry

    entry.start("report")
