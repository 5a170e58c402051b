"""Eight fake CPU devices before JAX starts, the oracles on the path, and a compilation cache for all tests."""

import os
import sys
import tempfile
from pathlib import Path

# Eight devices on a few busy cores may wait long for one another in a collective: XLA would end the process after 40 s.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    " --xla_cpu_collective_call_terminate_timeout_seconds=200"
)
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"mdfl_jax_test_cache_{os.getuid()}")
)
sys.path.insert(0, str(Path(__file__).parent))
