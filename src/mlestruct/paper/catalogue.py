"""All experiments by name. Their modules are loaded when they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

from .contract import Experiment, ReproductionError


@dataclass(frozen=True)
class Entry:
    """An experiment that can be loaded: a class in a module of `mlestruct.paper`."""

    name: str
    module: str
    class_name: str
    title: str

    def load(self) -> Experiment:
        module = import_module(f"mlestruct.paper.{self.module}")
        experiment: Experiment = getattr(module, self.class_name)()
        return experiment


CATALOGUE = tuple(
    Entry(*fields)
    for fields in (
        ("synthetic", "synthetic", "Synthetic",
         "likelihoods of approximate estimates and their bounds (figure 1, appendix)"),
        ("rho", "rho", "RhoTable", "test loss by rho, house at gap 50 (table)"),
        ("house-hotel", "house_hotel", "HouseHotel", "test loss by gap, house and hotel (table)"),
        ("mismatch", "mismatch", "Mismatch", "confidence in the points of one match (figure)"),
        ("roommates", "roommates", "Roommates", "weights of questions (tables), ROC (figure)"),
        ("horses", "horses", "Horses", "gap and error by time, picture 207 (figures)"),
        ("perturb-and-map", "perturb_and_map", "PerturbAndMap",
         "Frank-Wolfe against perturb-and-MAP (appendix, figure)"),
        ("belief-propagation", "belief_propagation", "BeliefPropagation",
         "speed of Frank-Wolfe and belief propagation (appendix, table)"),
    )
)  # fmt: skip
NAMES = tuple(entry.name for entry in CATALOGUE)


def entry_of(name: str) -> Entry:
    """The experiment of this name; an error names the ones there are."""
    for entry in CATALOGUE:
        if entry.name == name:
            return entry
    close = get_close_matches(name, NAMES, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ReproductionError(f"no experiment {name!r}: {hint}there are {', '.join(NAMES)}, and all")
