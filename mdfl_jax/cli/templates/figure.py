"""A figure of your own for the report. It is drawn in the report of every study that imports this file.

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  mdfl sweep digits --use=my_name.py
Test it with:      python -m pytest test_my_name.py
"""

from matplotlib.figure import Figure

from mdfl_jax.config import default_config
from mdfl_jax.report.registry import figure


@figure("my_name", caption=lambda run: "Megabits that a client of each point has sent until the end.")
def my_name(run):  # a mdfl_jax.report.read.ReportData
    drawn = Figure(figsize=(7, 3))
    sent = [point["bits_sent_per_client"] / 1e6 for point in run.points]
    drawn.subplots().barh([point["id"] for point in run.points], sent)
    return drawn


def get_config():
    config = default_config()
    config.name = "my_name"
    config.sweep = "network.mobility=static,dcm"
    return config
