"""All experiments by name. Their modules are loaded when they are needed."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from .contract import Experiment, ReproductionError

CATALOGUE = {  # in the order of the page: where each is in `mlestruct.paper`
    "synthetic": "synthetic.Synthetic",
    "rho": "landmark_losses.RhoTable",
    "house-hotel": "landmark_losses.HouseHotel",
    "mismatch": "mismatch.Mismatch",
    "roommates": "roommates.Roommates",
    "horses": "horses.Horses",
    "perturb-and-map": "perturb_and_map.PerturbAndMap",
    "belief-propagation": "belief_propagation.BeliefPropagation",
}
NAMES = tuple(CATALOGUE)


def load(name: str) -> Experiment:
    """The experiment of this name."""
    module, _, kind = CATALOGUE[name].partition(".")
    experiment: Experiment = getattr(import_module(f"{__package__}.{module}"), kind)()
    return experiment


def check_name(name: str) -> None:
    """An error names the experiments there are."""
    if name not in NAMES:
        close = get_close_matches(name, NAMES, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        there = f"there are {', '.join(NAMES)}, and all"
        raise ReproductionError(f"no experiment {name!r}: {hint}{there}")
