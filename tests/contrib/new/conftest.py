"""Commands in this process."""

from tests.cli.conftest import call  # noqa: F401
