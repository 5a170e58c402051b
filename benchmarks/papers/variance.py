"""Where the variance over seeds of MADFL's table II comes from, and how many seeds a claim of two points needs.

The item variance:t2. Alpha 0.05, three mobile clients, random movement, DAM and DCM. One study has a sweep over the
random streams that follow the seed: one alone (the others held), and all but one. It does so under several seeds of
what is held, and the variances are pooled within these. A second study lets everything follow the seed. Full-batch
descent has no minibatches, so both are repeated with minibatches, for this source alone.
"""

from typing import Any

from ml_collections import ConfigDict

from benchmarks.papers.components import BUT, EVERYTHING, HELD, ONLY, RULES, SOURCES, PerSeed, component, tables
from benchmarks.papers.items import Outcome, item
from benchmarks.papers.studies import Studies, Study
from configs import madfl
from mdfl_jax.config.presets import Preset, preset_config

OF_MOBILITY = "network.mobility=" + ",".join(RULES)
FULL, MINIBATCH = "full gradient", "minibatches of 16"


def _table_2() -> ConfigDict:
    config = madfl.mnist(3)
    config.sweep = OF_MOBILITY
    config.engine.record_positions, config.engine.states_mib = False, 0
    return config


# The length of all steps is the paper's, as in POINTS.
SHORT = {"seeds": 12, "rounds": 250, "algorithm.lr": 0.12, "data.limit_test": 1000}
PRESETS = {"t2": Preset(_table_2, madfl.POINTS | SHORT)}


def base(scale: str, setting: str) -> ConfigDict:
    """Return the study in which everything follows the seed. No run has a seed of what the other studies hold."""
    config = preset_config("variance", PRESETS, f"t2,scale={scale}")
    config.first_seed, config.eval_every = HELD, config.rounds  # an evaluation costs several rounds
    if setting == MINIBATCH:
        config.name += "_batch"
        config.algorithm.batch_size = 16
    return config


def held(config: ConfigDict, sources: list[str]) -> ConfigDict:
    """Return the study in which some streams are held, each source alone and all but it, with as many runs of each."""
    found = config.copy_and_resolve_references()
    cases = [*sources, *(f"{BUT} {source}" for source in sources)]
    found.name += "_held"
    found.seeds = max(2, config.seeds // HELD)
    found.sweep = f"vary={','.join(cases)}; held_seed={','.join(map(str, range(HELD)))}; {OF_MOBILITY}"
    return found


def _per_seed(study: Study, **setting: Any) -> PerSeed:
    return lambda rule: 100 * study.per_seed(mobility=rule, **setting)


def components(studies: Studies, setting: str, sources: list[str]) -> list[dict[str, Any]]:
    """Run or read the two studies of a setting, and return the deviations of all cases."""
    config = base(studies.scale, setting)
    whole, part = studies.of(config), studies.of(held(config, sources))
    found = [component(setting, EVERYTHING, "", [_per_seed(whole)])]
    for case in (ONLY, BUT):
        for source in sources:
            vary = source if case == ONLY else f"{BUT} {source}"
            groups = [_per_seed(part, vary=vary, held_seed=seed) for seed in range(HELD)]
            found.append(component(setting, case, source, groups))
    return found


@item("variance:t2", "Where the variance over seeds of MADFL's table II comes from", "madfl:t2")
def table_2(studies: Studies) -> Outcome:
    """Measure the components, and the seeds that a claim of two points needs."""
    found = components(studies, FULL, [source for source in SOURCES if source != "batch"])
    found += components(studies, MINIBATCH, ["batch"])
    return Outcome(tables(found), [])
