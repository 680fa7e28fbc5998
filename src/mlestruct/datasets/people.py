"""Two tables of people with errors: records to link one to one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arguments import as_count, as_number, generator
from .._lazy import pandas_module

GIVEN = (
    "anna ben carla david emma felix grace henry ida jonas karla leo maria noah olga paul "
    "rosa simon tina viktor wanda xaver yara zoe alma bruno clara dora emil frida georg hanna "
    "ivan julia kurt lena max nina oskar petra rudi sofia tom ulla vera willi adam berta carl "
    "diana erik fanny gustav"
)
SURNAMES = (
    "adler bauer christ dietz ebert fischer graf huber iske jung keller lang meier neumann "
    "otto pohl quast richter schmidt thiele ulrich vogel weber xander young ziegler arnold "
    "brandt conrad decker engel frank gross haas jahn kuhn lorenz maurer nagel peters roth "
    "sauer seidel stein wolf zimmer"
)
STREETS = (
    "acacia alder ash beech birch canal castle cedar chapel church cliff college elm field "
    "fountain garden harbour hazel hill king lake lime maple market meadow mill north oak "
    "orchard park pine queen river rose school south spring station vale willow"
)
TOWNS = "ashford brook clayton dover easton farley grantham hadley iver jarrow kirby linton"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def make_people(
    n_people: int = 400,
    *,
    overlap: float = 0.8,
    household: float = 0.3,
    errors: float = 0.15,
    missing: float = 0.05,
    random_state: Any = None,
) -> tuple[Any, Any, Any]:
    """Two tables of which many records are the same people, and the true links.

    Names are drawn from short lists, so that different people share some; members of a household
    share surname and address, and twins the date of birth as well.

    Parameters
    ----------
    n_people : records of the left table
    overlap : share of them that are in the right table, too; as many others are new there
    household : share of people who live with the person before them in the list
    errors : probability of an error in a cell of the right table: a typing error, a move to another
        address, day and month swapped
    missing : probability of an empty cell, in both tables

    Returns
    -------
    left, right : DataFrames of text, indexed by ids
    links : DataFrame with the columns left and right
    """
    pandas = pandas_module()
    as_count(n_people, "n_people")
    as_number(overlap, "overlap", 0.0, 1.0)
    as_number(household, "household", 0.0, 1.0)
    as_number(errors, "errors", 0.0, 1.0)
    as_number(missing, "missing", 0.0, 1.0)
    rng = generator(random_state)
    n_both = round(overlap * n_people)
    people = _draw(2 * n_people - n_both, household, rng)
    left = _blank(people[:n_people], missing, rng)
    new = people[n_people:]
    right = _blank([_changed(one, errors, rng) for one in people[:n_both] + new], missing, rng)
    order = [rng.permutation(len(side)) for side in (left, right)]
    frames = [
        pandas.DataFrame(
            [side[k] for k in places], index=pandas.Index([f"{name}{k}" for k in places], name="id")
        )
        for side, places, name in zip((left, right), order, "ab", strict=True)
    ]
    links = pandas.DataFrame(
        {"left": [f"a{k}" for k in range(n_both)], "right": [f"b{k}" for k in range(n_both)]}
    )
    return frames[0], frames[1], links


def _draw(count: int, household: float, rng: np.random.Generator) -> list[dict[str, str]]:
    people: list[dict[str, str]] = []
    for _ in range(count):
        one = {
            "given_name": str(rng.choice(GIVEN.split())),
            "surname": str(rng.choice(SURNAMES.split())),
            "street": _address(rng),
            "town": str(rng.choice(TOWNS.split())),
            "birth": _birth(rng),
        }
        if people and rng.random() < household:
            shared = ["surname", "street", "town"] + ["birth"] * int(rng.random() < 0.2)  # twins
            one.update({name: people[-1][name] for name in shared})
        people.append(one)
    return people


def _address(rng: np.random.Generator) -> str:
    number, kind = rng.integers(1, 60), rng.choice(["road", "street", "lane"])
    return f"{number} {rng.choice(STREETS.split())} {kind}"


def _birth(rng: np.random.Generator) -> str:
    return str(np.datetime64("1930-01-01") + int(rng.integers(0, 28_000)))


def _changed(person: dict[str, str], errors: float, rng: np.random.Generator) -> dict[str, str]:
    """The same person as somebody else wrote it down."""
    out = dict(person)
    for name in ("given_name", "surname", "town"):
        if rng.random() < errors:
            out[name] = _mistyped(out[name], rng)
    if rng.random() < errors:
        out["street"], out["town"] = _address(rng), str(rng.choice(TOWNS.split()))
    year, month, day = out["birth"].split("-")
    if rng.random() < errors:
        out["birth"] = f"{year}-{day}-{month}" if int(day) <= 12 else f"{year}-{month}-01"
    return out


def _mistyped(word: str, rng: np.random.Generator) -> str:
    """A letter replaced, left out, doubled, or swapped with the next."""
    k = int(rng.integers(len(word) - 1))
    letter = LETTERS[rng.integers(26)]
    middle = (letter + word[k + 1], word[k + 1], word[k] + word[k : k + 2], word[k + 1] + word[k])
    return word[:k] + middle[rng.integers(4)] + word[k + 2 :]


def _blank(
    people: list[dict[str, str]], missing: float, rng: np.random.Generator
) -> list[dict[str, str]]:
    return [
        {name: "" if rng.random() < missing else value for name, value in one.items()}
        for one in people
    ]
