"""All experiments by name. Their modules are loaded when they are needed."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from .contract import Experiment, ReproductionError

CATALOGUE = {  # by name: where it is in `mlestruct.paper`, and what it shows
    "synthetic": (
        "synthetic.Synthetic",
        "likelihoods of approximate estimates and their bounds (figure 1, appendix)",
    ),
    "rho": ("rho.RhoTable", "test loss by rho, house at gap 50 (table)"),
    "house-hotel": ("house_hotel.HouseHotel", "test loss by gap, house and hotel (table)"),
    "mismatch": ("mismatch.Mismatch", "confidence in the points of one match (figure)"),
    "roommates": ("roommates.Roommates", "weights of questions (tables), ROC (figure)"),
    "horses": ("horses.Horses", "gap and error by time, picture 207 (figures)"),
    "perturb-and-map": (
        "perturb_and_map.PerturbAndMap",
        "Frank-Wolfe against perturb-and-MAP (appendix, figure)",
    ),
    "belief-propagation": (
        "belief_propagation.BeliefPropagation",
        "speed of Frank-Wolfe and belief propagation (appendix, table)",
    ),
}
NAMES = tuple(CATALOGUE)


def load(name: str) -> Experiment:
    """The experiment of this name."""
    module, _, kind = CATALOGUE[name][0].partition(".")
    experiment: Experiment = getattr(import_module(f"{__package__}.{module}"), kind)()
    return experiment


def check_name(name: str) -> None:
    """An error names the experiments there are."""
    if name not in NAMES:
        close = get_close_matches(name, NAMES, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        there = f"there are {', '.join(NAMES)}, and all"
        raise ReproductionError(f"no experiment {name!r}: {hint}{there}")
