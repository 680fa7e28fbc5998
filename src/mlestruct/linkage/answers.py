"""Tables of answers: the match of each record with a decision, and the pairs for a person."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._lazy import pandas_module


def decide(links: Any, accept: float, top: int = 1, known: Any = None) -> Any:
    """One row per left record: its match or none, the probability and a decision.

    Parameters
    ----------
    links : Links
    accept : answers below this probability are left to a person ("review")
    top : if greater than 1, further columns hold that many candidates and their probabilities
    known : left ids whose answer is given
    """
    pandas = pandas_module()
    single, pairs = links.single_left, links.pairs
    best = pairs[pairs["proposed"]].set_index("left")
    missing = single.index.difference(best.index, sort=False)
    best = pandas.concat([best, pandas.DataFrame(index=missing)]).loc[single.index]
    linked = best["right"].notna().to_numpy()
    alone = single.loc[best.index].to_numpy()
    chance = np.where(linked, best["probability"], alone).astype(float)
    unsure = (accept > 0.0) & ~(chance >= accept)
    decision = np.where(unsure, "review", np.where(linked, "link", "no partner"))
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


def review_pairs(links: Any, decisions: Any, left: Any, right: Any, accept: float) -> Any:
    """Uncertain pairs with the cells of both records side by side, for a person to judge.

    The most probable pair of each record with the decision "review" is always included: several
    improbable pairs can add up although none of them is uncertain by itself.
    """
    queue = links.review_queue
    open_ = decisions["left"][decisions["decision"] == "review"]
    queue = queue[queue["left"].isin(open_)]
    chance = queue["probability"]
    best = queue.index.isin(chance.groupby(queue["left"]).idxmax())
    queue = queue[best | ((chance > 1 - accept) & (chance < accept))]
    out = queue[["left", "right", "probability", "proposed", "margin", "group"]].reset_index(
        drop=True
    )
    out.insert(2, "checked", "")
    for column in left.columns:
        out[f"left {column}"] = left[column].reindex(out["left"]).to_numpy()
        if column in right.columns:
            out[f"right {column}"] = right[column].reindex(out["right"]).to_numpy()
    return out
