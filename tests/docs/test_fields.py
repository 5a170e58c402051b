"""docs/fields.md is what the code declares, and its tables have every field and every member."""

from pathlib import Path

from mdfl_jax.cli.catalogue import families, listing
from mdfl_jax.cli.reference import page
from mdfl_jax.config.resolve import all_fields

PAGE = Path(__file__).parents[2] / "docs" / "fields.md"


def test_the_page_is_the_one_that_the_code_makes():
    assert page() == PAGE.read_text(), "python -m launch.info --fields > docs/fields.md writes it"


def test_every_field_and_every_member_has_a_row():
    text = page()
    for path, field in all_fields().items():
        name = path.rpartition(".")[2] if "own" in field.metadata else path
        assert f"| `{name}` | " in text, path
        assert field.metadata["doc"].replace("<", "&lt;").replace("|", "\\|") in text, path
    for family in families().values():
        for member in family.registry:
            assert f"| `{member}` | " in text


def test_every_row_has_as_many_cells_as_its_heading():
    for table in page().split("\n\n"):
        rows = [line.replace("\\|", "") for line in table.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1, table


def test_the_list_of_members_tells_the_same_facts():
    text = page()
    listed = listing()
    for row in (line for line in listed.splitlines() if line.startswith("      ")):
        name, _, rest = row.strip().partition(" = ")
        default = rest.split(" ")[0].rstrip(":")
        assert f"`{name}` | `{default}" in text or f"`{name}` | empty" in text, row
