"""One word for one thing: what has a name in the field, and a name here, has no other name where a user reads."""

import re

import pytest
from pages import PAGES

from mdfl_jax.cli import families
from mdfl_jax.cli.commands import commands

OTHER_NAMES = {
    r"kept models?": "checkpoint",
    r"famil(y|ies)": "registry",
    r"members?": "entry",
    r"(?<!who )heard": "received",
    r"strateg(y|ies)": "policy",
    r"data that come on the way": "streaming data",
    r"told from chance": "minimum detectable difference",
    r"(can|cannot) tell (it|them) from": "significantly better, no significant difference",
    r"connects? everybody": "jointly connected",
    r"share at least as long": "P(duration >= x)",
    r"it has no effect:": "ignored:",
    r"python -m launch": "mdfl",
}
"""Words that have another name here, as patterns, with this name."""
ALLOWED = {  # where a word has another meaning, or is explained
    "glossary.md": ("member and family", "(`heard`)"),
    "hosts.md": ("python -m launch.sweep --config=... --hosts=auto",),  # named once: how TPU VMs and scripts call it
}
SPELLED = {
    "DAM": "distribution-aware movement",
    "DCM": "distribution-aware cluster-centre movement",
    "D-PSGD": "decentralized parallel SGD",
}
"""What a page with one of these short names spells out once at least."""
CODE = re.compile(r"^(```+).*?^\1[ \t]*$|`[^`\n]*`|\]\([^)]*\)", re.M | re.S)


def wrong(text):
    """The words of a text that have another name, with this name."""
    return {
        found[0]: name for word, name in OTHER_NAMES.items() for found in re.finditer(rf"\b{word}", text, re.IGNORECASE)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_the_words_of_the_glossary(page):
    text = page.read_text()
    for allowed in ALLOWED.get(page.name, ()):
        assert text.count(allowed) == 1, allowed
        text = text.replace(allowed, "")
    assert wrong(CODE.sub("", text)) == {}
    assert "python -m launch" not in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_spell_out_the_names_of_the_papers(page):
    text = " ".join(page.read_text().split())
    short = {name for name, full in SPELLED.items() if full.lower() not in text.lower()}
    assert {name for name in short if re.search(rf"\b{name}\b", text)} == set()


def test_the_help_of_fields_and_the_lines_of_commands_use_them():
    assert wrong("\n".join(commands().values())) == {}
    assert wrong(CODE.sub("", families.fields())) == {}
