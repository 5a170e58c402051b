"""The pages of fields and families have what the code declares: every field, every member, its formula and papers."""

import runpy

from pages import ROOT

from mdfl_jax.cli.families import families, prose
from mdfl_jax.config.resolve import all_fields
from mdfl_jax.core import papers

PAGES = runpy.run_path(str(ROOT / "docs" / "made_pages.py"))["PAGES"]
WITHOUT_FORMULA = ("data_name", "logger")


def test_every_field_and_every_member_has_its_place():
    whole = "\n".join(PAGES.values())
    for path, field in all_fields().items():
        assert f"\n- `{path}` = " in whole, path
        assert prose(field.metadata["doc"]) in whole, path
    for name, family in families().items():
        page = PAGES[f"families/{name}.md"]
        assert all(f"\n## `{member}`\n" in page for member in family.registry)


def test_every_member_has_a_line_a_formula_and_papers_that_exist():
    for name, family in families().items():
        for each in family.registry:
            member = family.registry.member(each)
            assert family.registry.doc(each).endswith("."), each
            assert member.formula or name in WITHOUT_FORMULA, each
            assert papers.cited(member.cite) or not member.cite
    named = {of.key for family in families().values() for each in family.registry
             for of, _ in papers.cited(family.registry.member(each).cite)}  # fmt: skip
    from mdfl_jax.data.sources import WELL_KNOWN

    assert set(papers.papers()) - named - set(WELL_KNOWN.values()) == {papers.SOFTWARE}, "papers that nobody cites"
