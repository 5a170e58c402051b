"""docs/fields.md is what the code declares, with every field and every member, as the list of members says it."""

from pathlib import Path

from mdfl_jax.cli.info import families, listing, page
from mdfl_jax.config.resolve import all_fields

PAGE = (Path(__file__).parents[2] / "docs" / "fields.md").read_text()


def test_the_page_is_the_one_that_the_code_makes():
    assert page() == PAGE, "python -m launch.info --fields > docs/fields.md writes it"
    for table in PAGE.split("\n\n"):
        rows = [line.replace("\\|", "") for line in table.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1, table


def test_every_field_and_every_member_has_a_row():
    for path, field in all_fields().items():
        name = path.rpartition(".")[2] if "own" in field.metadata else path
        assert f"| `{name}` | " in PAGE, path
        assert field.metadata["doc"].replace("<", "&lt;").replace("|", "\\|") in PAGE, path
    assert all(f"| `{member}` | " in PAGE for family in families().values() for member in family.registry)
    for row in (line.strip() for line in listing().splitlines() if line.startswith("      ")):
        name, _, rest = row.partition(" = ")
        default = rest.split(" ")[0].rstrip(":")
        assert f"`{name}` | `{default}" in PAGE or f"`{name}` | empty" in PAGE, row
