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
    single, pairs, n = links.single_left, links.pairs, len(links.single_left)
    alone = single.to_numpy()
    chosen = np.flatnonzero(pairs["proposed"].to_numpy())
    of_row = np.full(n, -1)
    of_row[links.rows[chosen]] = chosen
    linked = of_row >= 0
    right, margin = np.full(n, "", dtype=object), np.full(n, np.nan)
    right[linked] = pairs["right"].to_numpy()[of_row[linked]]
    margin[linked] = pairs["margin"].to_numpy()[of_row[linked]]
    chance = alone.copy()
    chance[linked] = pairs["probability"].to_numpy()[of_row[linked]]
    unsure = (accept > 0.0) & ~(chance >= accept)
    decision = np.where(unsure, "review", np.where(linked, "link", "no partner"))
    is_compared = np.bincount(links.rows, minlength=n) > 0
    decision = np.where(is_compared, decision, "not compared")
    if known is not None:
        decision = np.where(single.index.isin(known), "known", decision)
    table = pandas.DataFrame(
        {
            "left": single.index,
            "right": right,
            "probability": chance,
            "decision": decision,
            "margin": margin,
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
    open_ = (decisions["decision"] == "review").to_numpy()[links.rows]
    queue = links.pairs[open_]
    chance = queue["probability"]
    queue = queue.iloc[np.argsort((chance - 0.5).abs().to_numpy(), kind="stable")]
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
