"""report.html and the launcher: what the page says, and how a user's mistake is told."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.report import page
from mdfl_jax.results.results import Results


def test_page_tells_the_remarks_the_verdict_the_setting_the_captions_and_the_making(reported: Path) -> None:
    run = dataclasses.replace(Results.read(reported).shown(), remarks=("Round 9 of 40 <so far>.",))
    text = page.render(run)
    assert "<h1>Moves &amp; &lt;b&gt;&#34;mixes&#34;&lt;/b&gt;</h1>" in text
    said = (
        "<p>Round 9 of 40 &lt;so far&gt;.</p>",
        r'<p class="verdict">dcm (is best|has the highest mean): [0-9.]+ ± [0-9.]+ % final test acc',
        "<dt>clients</dt> <dd>8</dd>",
        "<dt>mobility</dt> <dd>static, random movement, dam, dcm</dd>",
        "<dt>side of the grid</dt> <dd>10</dd>",
        "mean over 3 seeds",
        "The labels are divided very unequally",
        "<code>mdfl sweep synthetic</code>",
        "0123abc",
        "jax 0.10.2",
        "<dd>2 x TFRT_CPU</dd>",
        "12.8 s to compile",
        "<dd>0 to 2</dd>",  # the seeds
    )
    assert re.search("(?s:.*)".join(said), text)


def without(key):
    return lambda path: path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != key}))


MISTAKES = [
    ("config.json", without("seeds"), ": lacks 'seeds'"),
    ("streets.npz", lambda path: np.savez(path, streets=np.zeros((2, 3))), ": streets has shape (2, 3); [K, 4] is"),
]


@pytest.mark.parametrize(("name", "harm", "why"), MISTAKES)
def test_a_harmed_file_is_named_in_one_line(make_workdir, name, harm, why):
    folder = make_workdir(rounds=10)
    harm(folder / name)
    with pytest.raises(UserError, match=re.escape(f"{name}{why}")) as error:
        page.render(Results.read(folder).shown())
    assert "\n" not in str(error.value)
