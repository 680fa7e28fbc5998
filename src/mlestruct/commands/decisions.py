"""Tables of answers: the partner of each record, how probable it is, and what to do with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._lazy import pandas_module


def decide(found: Any, accept: float, top: int = 1, known: Any = None, word: str = "link") -> Any:
    """A row for every left record and partner, or one that says that it has none.

    Parameters
    ----------
    found : `Links` or `Matches`
    accept : answers below this probability are for a person to decide, "review"
    top : with more than 1, that many candidates and their probabilities in further columns
    known : left ids whose answer is known, no predictions
    word : the decision to accept a partner
    """
    pandas = pandas_module()
    single, pairs = found.single_left, found.pairs
    best = pairs[pairs["proposed"]].set_index("left")
    missing = single.index.difference(best.index, sort=False)
    best = pandas.concat([best, pandas.DataFrame(index=missing)]).loc[single.index]
    linked = best["right"].notna().to_numpy()
    alone = single.loc[best.index].to_numpy()
    chance = np.where(linked, best["probability"], alone).astype(float)
    unsure = (accept > 0.0) & ~(chance >= accept)
    decision = np.where(unsure, "review", np.where(linked, word, "no partner"))
    decision = np.where(best.index.isin(pairs["left"]), decision, "not compared")
    if known is not None:
        decision = np.where(best.index.isin(known), "known", decision)
    table = pandas.DataFrame(
        {
            "left": best.index,
            "right": best["right"].where(linked, "").to_numpy(),
            "probability": chance,
            "decision": decision,
            "margin": best["margin"].to_numpy(dtype=float),
            "probability_no_partner": alone,
        }
    )
    return table if top == 1 else _with_candidates(table, pairs, top)


def _with_candidates(table: Any, pairs: Any, top: int) -> Any:
    """Further columns with the most probable candidates of each record."""
    order = pairs.sort_values("probability", ascending=False, kind="stable")
    rank = order.groupby("left").cumcount()
    for k in range(top):
        own = order[rank == k].set_index("left").reindex(table["left"])
        table[f"candidate_{k + 1}"] = own["right"].fillna("").to_numpy()
        table[f"probability_{k + 1}"] = own["probability"].to_numpy(dtype=float)
    return table
