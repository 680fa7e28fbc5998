"""All experiments by name. Their modules are loaded when they are needed."""

from __future__ import annotations

from importlib import import_module

from .contract import Experiment

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
