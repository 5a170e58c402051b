"""How the tests compile, and what commands print, without what depends on how busy the machine is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUICK = "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters=true --xla_cpu_parallel_codegen_split_count=1"
"""XLA's flags with which it compiles the small programs of tests four times as fast (jaxlib 0.10 and 0.11)."""

_PROGRESS = re.compile(r"mdfl_jax: |compiling program |\d+ %: ")


def without_stages(text: str) -> str:
    """Return a text of standard error without the lines that tell how far a command is."""
    return "".join(line for line in text.splitlines(keepends=True) if not _PROGRESS.match(line))
