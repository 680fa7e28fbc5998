"""Generated postal addresses with 29 labels and string features, in the manner of address parsers.

Words of streets, places, buildings and people overlap, so that context has to decide; the
vocabulary grows with the number of addresses, as that of real text does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SUFFIXES = ("st", "ave", "rd", "blvd", "ln", "dr", "ct", "pl", "way", "pkwy", "hwy", "ter")
DIRECTIONS = ("n", "s", "e", "w", "ne", "nw", "se", "sw", "north", "south", "east", "west")
OCCUPANCY = ("apt", "suite", "unit", "fl", "room", "ste", "#", "no")
STATES = ("ca", "ny", "tx", "il", "wa", "ma", "fl", "oh", "pa", "ga", "mi", "nc", "va", "az")
SUBADDRESS = ("floor", "wing", "tower", "bldg", "lobby", "level")
MODIFIERS = ("old", "new", "upper", "lower", "great")
TYPES = ("route", "us", "county", "state", "interstate", "highway", "road", "avenue")
CORNERS = ("and", "&", "at", "corner")
GROUPS = ("po", "box", "psc", "unit", "rr", "cmr")
SYLLABLES = tuple(c + v for c in "bcdfghklmnprstvw" for v in ("a", "e", "i", "o", "u", "an", "er"))
VOWELS = frozenset("aeiouy")


def make_addresses(
    n_addresses: int, random_state: int = 0
) -> tuple[list[list[dict[str, Any]]], list[list[str]]]:
    """X: for each address a list of feature dictionaries, one per token; Y: lists of labels."""
    rng = np.random.default_rng(random_state)
    writer = _Writer(rng)
    X, Y = [], []
    for _ in range(n_addresses):
        tokens, labels = writer.address()
        X.append(features(tokens))
        Y.append(labels)
    return X, Y


class _Writer:
    """Draws addresses; names follow a Zipf law over one vocabulary that all kinds share."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        counts = rng.integers(1, 4, size=1300)
        names = ["".join(rng.choice(SYLLABLES, size=n)) for n in counts]
        self.names = list(dict.fromkeys(names))
        frequency = 1.0 / np.arange(3.0, 3.0 + len(self.names)) ** 0.9
        self.upto = np.cumsum(frequency / frequency.sum())

    def name(self, kind: int) -> str:
        """A word of a street (0), place (1), building (2) or person (3): mostly the kind's own."""
        at = int(np.searchsorted(self.upto, self.rng.random()))
        at = min(at, len(self.names) - 1)
        if self.rng.random() < 0.7:
            at = min(at - at % 4 + kind, len(self.names) - 1)
        return self.names[at]

    def number(self, low: int, high: int) -> str:
        return str(int(np.exp(self.rng.uniform(np.log(low), np.log(high)))))

    def pick(self, words: tuple[str, ...]) -> str:
        return words[int(self.rng.integers(len(words)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def address(self) -> tuple[list[str], list[str]]:
        """Tokens and labels; one label in fifty is wrong, as in text labelled by hand."""
        found: list[tuple[str, str]] = []
        kind = self.rng.random()
        if self.chance(0.15):
            found += [(self.name(3), "Recipient") for _ in range(self.rng.integers(1, 4))]
        if self.chance(0.1):
            found += self._building()
        if kind < 0.08:
            found += self._box()
        elif kind < 0.16:
            found += self._street("", number=False)
            found.append((self.pick(CORNERS), "IntersectionSeparator"))
            found += self._street("Second", number=False)
        else:
            found += self._street("", number=True)
        if self.chance(0.35):
            found.append((self.pick(OCCUPANCY), "OccupancyType"))
            found.append((self.number(1, 2000), "OccupancyIdentifier"))
        if self.chance(0.06):
            found.append((self.pick(SUBADDRESS), "SubaddressType"))
            found.append((self.number(1, 30), "SubaddressIdentifier"))
        if self.chance(0.03):
            found.append((self.pick(("near", "behind", "opposite")), "LandmarkPreposition"))
            found.append((self.name(2), "LandmarkName"))
        if self.chance(0.9):
            size = int(self.rng.integers(1, 3))
            place = [(self.name(1), "PlaceName") for _ in range(size)]
            place[-1] = (place[-1][0] + "," * self.chance(0.6), "PlaceName")
            found += place
        if self.chance(0.85):
            found.append((self.pick(STATES), "StateName"))
        if self.chance(0.8):
            found.append((self.number(10000, 99999), "ZipCode"))
            if self.chance(0.05):
                found.append((self.number(1000, 9999), "ZipPlus4"))
        if self.chance(0.03):
            found.append((self.pick(("usa", "us", "canada")), "CountryName"))
        if self.chance(0.02):
            found.append((self.pick(("attn", "rear", "gate")), "NotAddress"))
        kinds = sorted({label for _, label in found})
        labels = [kinds[self.rng.integers(len(kinds))] if self.chance(0.02) else label
                  for _, label in found]  # fmt: skip
        return [token for token, _ in found], labels

    def _street(self, which: str, number: bool) -> list[tuple[str, str]]:
        found = []
        if number:
            found.append((self.number(1, 20000), "AddressNumber"))
            if self.chance(0.02):
                found.append((self.pick(("1/2", "a", "b")), "AddressNumberSuffix"))
        street = f"{which}StreetName"
        if self.chance(0.3) and not which:
            found.append((self.pick(DIRECTIONS), street + "PreDirectional"))
        if self.chance(0.03) and not which:
            found.append((self.pick(MODIFIERS), street + "PreModifier"))
        if self.chance(0.08) and not which:
            found.append((self.pick(TYPES), street + "PreType"))
            found.append((self.number(1, 400), street))
        else:
            found += [(self.name(0), street) for _ in range(self.rng.integers(1, 3))]
        if self.chance(0.85):
            dot = "." * self.chance(0.3)
            found.append((self.pick(SUFFIXES) + dot, street + "PostType"))
        if self.chance(0.08) and not which:
            found.append((self.pick(DIRECTIONS), street + "PostDirectional"))
        return found

    def _building(self) -> list[tuple[str, str]]:
        found = [(self.name(2), "BuildingName") for _ in range(self.rng.integers(1, 3))]
        if self.chance(0.5):
            found.append((self.pick(("center", "plaza", "mall")), "BuildingName"))
        return found

    def _box(self) -> list[tuple[str, str]]:
        found = [(self.pick(GROUPS), "USPSBoxType"), (self.number(1, 9000), "USPSBoxID")]
        if self.chance(0.2):
            group = [
                (self.pick(GROUPS), "USPSBoxGroupType"),
                (self.number(1, 900), "USPSBoxGroupID"),
            ]
            found = group + found
        return found


def features(tokens: list[str]) -> list[dict[str, Any]]:
    """Features of every token, of its neighbours, and of the ends of the address."""
    own = [_token_features(token) for token in tokens]
    found = []
    for t, mine in enumerate(own):
        row: dict[str, Any] = dict(mine)
        if t > 0:
            row |= {f"previous:{name}": value for name, value in own[t - 1].items()}
        else:
            row["start"] = True
        if t + 1 < len(own):
            row |= {f"next:{name}": value for name, value in own[t + 1].items()}
        else:
            row["end"] = True
        found.append(row)
    return found


def _token_features(token: str) -> dict[str, Any]:
    word = token.strip(".,")
    digits = sum(letter.isdigit() for letter in word)
    kind = "all" if digits == len(word) else "some" if digits else "none"
    found = {
        "abbreviation": token.endswith("."),
        "comma": token.endswith(","),
        "digits": kind,
        "word": word if kind == "none" else False,
        "trailing zeros": word[len(word.rstrip("0")) :] if kind == "all" else False,
        "length": ("d" if kind == "all" else "w") + str(len(word)),
        "directional": word in DIRECTIONS,
        "street type": word in SUFFIXES,
        "vowels": bool(VOWELS & set(word[1:])),
        "ending": word[-3:] if kind == "none" else False,
    }
    return {name: value for name, value in found.items() if value is not False}
