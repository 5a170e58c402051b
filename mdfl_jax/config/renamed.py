"""What configurations of earlier versions called otherwise. Error messages name the new spelling."""

RENAMED = {"network.warm_up_met": "motion.warm_up_met", "network.tell_met": "motion.tell_met"}
"""Fields that had another path."""

_MET, _PLANE = "motion.knowledge=met", "network.world=plane"
_SUFFIXES = {"_met": _MET, "_plane": _PLANE, "_met_plane": f"{_MET} and {_PLANE}"}
_STRATEGIES = "age_aware coordinated dam dcm dcm_weighted learnt spectral staleness waiting"
MOVED = {
    **{
        f"{rule}{suffix}": f"network.mobility={rule} with {settings}"
        for rule in _STRATEGIES.split()
        for suffix, settings in _SUFFIXES.items()
    },
    "cover_tour_plane": f"network.mobility=cover_tour with {_PLANE}",
    "exploring": "network.mobility=waiting with motion.knowledge=explored",
    "static_plane": f"network.mobility=static with {_PLANE}",
    "static_trace": "network.mobility=static with network.world=trace",
}
"""Names of mobility rules that also said what clients know or where they move, and what says it now."""
