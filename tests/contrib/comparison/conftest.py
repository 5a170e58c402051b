"""The synthetic study of the tests of the report."""

from tests.report.conftest import _told_by_views, folder_of, make_workdir, reported, study  # noqa: F401
