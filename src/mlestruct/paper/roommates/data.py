"""Campuses, generated or read, year by year."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets import Campus, data_folder, generate_campus, read_campus
from ...datasets.landmarks import ENVIRONMENT
from ...features import QuestionnairePairs
from ..contract import Setting

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OWN_FOLDER = "campus"
OWN = "own files"


@dataclass(frozen=True)
class Years:
    """Features of all pairs, and partners, year by year."""

    X: list[QuestionnairePairs]
    Y: list[Ints]

    @classmethod
    def of(cls, campus: Campus) -> Years:
        """Only the students with a roommate, and only the years with some, as in the paper."""
        years = [year.paired() for year in campus.years if (year.partner >= 0).any()]
        return cls([campus.features(year) for year in years], [year.partner for year in years])

    def __getitem__(self, which: slice) -> Years:
        return Years(self.X[which], self.Y[which])

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True)
class Cohort:
    """A campus as the methods see it; `truth` are the weights behind generated pairs."""

    questions: list[str]
    years: Years
    truth: Floats | None


def campus_names(setting: Setting) -> list[str]:
    """All campuses of a setting."""
    generated = [f"campus {seed + 1}" for seed in setting["seeds"]]
    return generated + ([OWN] if setting["own"] else [])


def load(name: str, setting: Setting) -> Cohort:
    """The campus of this name."""
    if name == OWN:
        return _own(setting["own"]["checksum"])
    return _generated(setting["students"], int(name.split()[-1]) - 1)


@lru_cache(maxsize=1)
def _generated(n_students: int, seed: int) -> Cohort:
    return _cohort(generate_campus(n_students, random_state=seed))


@lru_cache(maxsize=1)
def _own(checksum: str) -> Cohort:
    if _checksum() != checksum:
        raise ValueError(f"the files in {OWN_FOLDER} have changed since the run began")
    return _cohort(read_campus(data_folder() / OWN_FOLDER))


def _cohort(campus: Campus) -> Cohort:
    names = [question.name for question in campus.questions]
    return Cohort(names, Years.of(campus), campus.true_theta)


# ---------------------------------------------------------------------- own files
def own_files() -> tuple[dict[str, Any] | None, str]:
    """What is known of own files, and in words whether they are used.

    Files that are there but cannot be read are an error.
    """
    private = "the paper's records are not public"
    if not os.environ.get(ENVIRONMENT) or not (data_folder() / OWN_FOLDER).is_dir():
        return None, f"{private}, and {ENVIRONMENT} names no folder with a folder {OWN_FOLDER}"
    sizes = [len(partner) for partner in Years.of(read_campus(data_folder() / OWN_FOLDER)).Y]
    if len(sizes) < 3:  # to train, to choose and to test
        few = f"the files in {OWN_FOLDER} have {len(sizes)} years with roommates"
        return None, f"{private}, and {few}: 3 are needed"
    return {"students": sizes, "checksum": _checksum()}, f"{private}; {OWN_FOLDER} is used as well"


def _checksum() -> str:
    """Changes when a file does."""
    found = 0
    for file in sorted((data_folder() / OWN_FOLDER).glob("*.csv")):
        found = zlib.crc32(file.name.encode() + file.read_bytes(), found)
    return f"{found:08x}"
