"""`launch.data --config`: the clients' data of a study without training, and its mistakes."""

import pytest

from mdfl_jax.cli import data

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections
TINY = """
from mdfl_jax.config import default_config

def get_config():
    config = default_config()
    config.name, config.seeds, config.rounds, config.eval_every = "tiny", 2, 4, 2
    config.data.limit_train, config.data.limit_test, config.model.name = 120, 60, "linear"
    config.network.num_clients, config.network.num_mobile, config.network.grid_size = 6, 2, 5
    return config
"""


@pytest.fixture
def call(call, tmp_path, monkeypatch):
    """Runs launch.data in this process with {config} in its arguments filled in: (status, output, errors)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.py").write_text(TINY)
    return lambda *args: call(data, *(arg.format(config=f"--config={tmp_path / 'tiny.py'}") for arg in args))


@pytest.mark.long
def test_counts_numbers_and_a_picture(call, tmp_path):
    status, out, err = call("{config}", "--config.data.alpha=0.3", "--picture=clients.png")
    assert (status, err) == (0, "")
    assert "dirichlet, data.alpha=0.3" in out
    assert "earth mover's distance (1-norm)" in out
    assert out.endswith("picture: clients.png\n")
    assert (tmp_path / "clients.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_a_picture_for_each_data(call, tmp_path):
    status, out, _ = call("{config}", "--config.sweep=data.partition=iid,shards", "--picture=clients.svg")
    assert status == 0
    assert out.count("total variation distance") == 2
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["clients_1.svg", "clients_2.svg"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "--trace=FILE is missing: a trace to describe; or --config=FILE, a study"),
        (("--picture=a.png",), "--picture=a.png needs --config=FILE"),
        (("{config}", "--trace=town.csv"), "--trace=town.csv and --config are both given"),
        (("{config}", "--picture=a.gif"), "--picture=a.gif: it must end in .png, .pdf or .svg"),
        (("{config}", "--picture=no/a.png"), "--picture=no/a.png: there is no folder 'no'"),
        (("{config}", "--config.data.alpha=0.0"), "data.alpha is 0.0; it must be greater than 0"),
        (("{config}", "--config.data.partition=iidd"), "unknown partition 'iidd' (did you mean 'iid'?)"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(call, tmp_path, args, says):
    before = set(tmp_path.iterdir())
    status, out, err = call(*args)
    assert status == 2
    assert out == ""
    assert err.startswith("error: ")
    assert says in err
    assert err.count("\n") == 1
    assert {path for path in tmp_path.iterdir() if path.name != "__pycache__"} <= before
