"""Roommates: learning from questionnaires who chose to live with whom (the paper's Section 5.2).

The paper's records cannot be had, so campuses are generated from known weights
(`mlestruct.datasets.generate_campus`), one for each seed; --data reads a housing office's own files
instead, at least three years of them. The last year is the test, all earlier ones train.

Whatever has to be chosen is chosen in the same way for every method: train on all training years
but the last, take the choice with the highest AUC on that last one, train again on all of them.
What the perceptron and the SVM learn depends so much on when they stop that a choice need not suit
more data, so the very weights that were best at choosing are judged as well ("as chosen").
For the CRF this is alpha (chosen at rho = .95, used at rho = 1 as well; --alpha fixes it). AUC
judges rankings and prefers weights that are shrunk too much, most of all those of rare answers; the
weights themselves are therefore read at the alpha with the largest likelihood of the last training
year ("by likelihood"). For the structured SVM it is alpha, for the structured perceptron the number
of passes and the decay of its rate. Both of these decode exactly, by the blossom algorithm. A
matching of thousands cannot be predicted without errors, so theta = 0 is nearly the best the hinge
loss can have; the SVM is therefore shown twice, at its best objective and as the average of its
iterates, which is what alpha is chosen for.

"constant" has weight -1 for every difference and 0 for all else; "truth" has the weights behind
the data. Weights are compared in the shortest of all equivalent forms (see
`QuestionnairePairs.shortest_equivalent`), to which the ridge penalty leads.

    python -m experiments.roommates                        # 3 campuses of 3 years of 2400
    python -m experiments.roommates --data FOLDER          # own files; see read_campus
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.exceptions import ConvergenceWarning

from experiments.reporting import verdict
from mlestruct import MatchingCRF
from mlestruct.baselines import MatchingPerceptron, MatchingSVM
from mlestruct.datasets import Campus, generate_campus, read_campus
from mlestruct.features import QuestionnairePairs
from mlestruct.ranking import PairROC, pair_roc, rank_of_partner

ALPHAS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0)
TOL = 1e-6  # relative; weights are then within sqrt(2 TOL |objective| / alpha) of the best ones
SVM_ALPHAS = (1e9, 1e8, 1e7, 1e6, 1e4, 1e2)
SVM_PASSES = 20
PASSES = ((1, 0.0), (3, 0.0), (10, 0.0), (3, 1.0), (10, 1.0), (30, 1.0))  # and decay of the rate
RATES = (1e-3, 1e-2, 5e-2)  # of false positives, at which true positives are told
STRONG = ("smoking", "personality", "bed time")
OURS, BETHE = "MLE, rho=.95", "MLE, rho=1"
LIKELY = "MLE, by likelihood"
PERCEPTRON, SVM, SVM_OPTIMUM = "perceptron", "SVM, averaged", "SVM, best objective"
CONSTANT, TRUTH = "constant", "truth"
EARLIER = ", as chosen"  # weights of fewer years, not trained again
RIVALS = (CONSTANT, PERCEPTRON, PERCEPTRON + EARLIER, SVM, SVM + EARLIER, SVM_OPTIMUM)


@dataclass(frozen=True)
class Years:
    """Features of all pairs, and partners, year by year."""

    X: list[QuestionnairePairs]
    Y: list[np.ndarray]

    @classmethod
    def of(cls, campus: Campus) -> Years:
        """Only the students with a roommate, as in the paper."""
        years = [year.paired() for year in campus.years]
        return cls([campus.features(year) for year in years], [year.partner for year in years])

    def __getitem__(self, which: slice) -> Years:
        return Years(self.X[which], self.Y[which])


@dataclass(frozen=True)
class Entry:
    """A method on one campus: its weights, what was chosen, what it cost and what it is worth."""

    theta: np.ndarray
    note: str
    seconds: float
    roc: PairROC
    rank: float

    @property
    def auc(self) -> float:
        return self.roc.auc

    def accepted(self, rate: float) -> float:
        """The share of true pairs above the threshold that lets this share of wrong ones pass."""
        found = self.roc.threshold_at(false_positive_rate=rate)
        return 1.0 - self.roc.rejection(found).lost


# ---------------------------------------------------------------------- quality
def score_table(features: QuestionnairePairs, theta: np.ndarray) -> np.ndarray:
    """Scores of all pairs as a symmetric matrix."""
    table = np.zeros(features.shape)
    table[np.triu_indices(features.shape[0], 1)] = features.scores(theta)
    return table + table.T


def judge(years: Years, theta: np.ndarray, seconds: float = 0.0) -> Entry:
    """What weights are worth in the last of the years."""
    table = score_table(years.X[-1], theta)
    rank = float(np.nanmean(rank_of_partner(table, years.Y[-1])))
    return Entry(theta, "", seconds, pair_roc(table, years.Y[-1]), rank)


def auc_of(years: Years, theta: np.ndarray) -> float:
    return pair_roc(score_table(years.X[-1], theta), years.Y[-1]).auc


# ---------------------------------------------------------------------- methods
def fitted(model: Any, years: Years) -> Any:
    """The baselines stop after their passes, which is as it should be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(years.X, years.Y)


def perceptron(choice: tuple[int, float]) -> MatchingPerceptron:
    return MatchingPerceptron(max_iter=choice[0], decay=choice[1], random_state=0)


def averaged_svm(alpha: float) -> MatchingSVM:
    return MatchingSVM(alpha=alpha, max_iter=SVM_PASSES, averaging=True, random_state=0)


def best_svm(alpha: float) -> MatchingSVM:
    return MatchingSVM(alpha=alpha, max_iter=SVM_PASSES, random_state=0)


def chosen(
    make: Callable[[Any], Any], choices: Sequence[Any], train: Years
) -> tuple[Any, np.ndarray]:
    """The choice with the highest AUC on the last training year, and its weights."""
    thetas = [fitted(make(choice), train[:-1]).coef_ for choice in choices]
    best = int(np.argmax([auc_of(train, theta) for theta in thetas]))
    return choices[best], thetas[best]


def likeliest(alphas: Sequence[float], train: Years) -> float:
    """The alpha with the largest likelihood of the last training year."""
    before, last = train[:-1], train[-1:]
    path = MatchingCRF(tol=TOL).fit_path(before.X, before.Y, alphas)
    found = [model.approximate_log_likelihood(last.X, last.Y)[0] for model in path.estimators]
    return path.alphas[int(np.argmax(found))]


def timed(make: Callable[[], Any], years: Years) -> tuple[Any, Entry]:
    """Train on all years but the last, judge on the last."""
    began = time.process_time()
    model = fitted(make(), years[:-1])
    seconds = time.process_time() - began
    return model, judge(years, model.coef_, seconds)


def certified(model: MatchingCRF) -> float:
    return model.duality_gap_ / max(1.0, abs(model.objective_))


def run_campus(years: Years, alpha: float | None, truth: np.ndarray | None) -> dict[str, Entry]:
    """All methods on one campus."""
    train = years[:-1]
    alphas = ALPHAS if alpha is None else (alpha,)
    alpha, theta = chosen(lambda a: MatchingCRF(alpha=a, tol=TOL), alphas, train)
    entries = {}
    for name, rho in ((OURS, 0.95), (BETHE, 1.0)):
        model, entry = timed(lambda rho=rho: MatchingCRF(alpha=alpha, rho=rho, tol=TOL), years)
        note = f"alpha {alpha:g}, certified gap {certified(model):.0e}"
        entries[name] = replace(entry, note=note)
    entries[OURS + EARLIER] = judge(years, theta)
    likely = likeliest(alphas, train)
    model, entry = timed(lambda: MatchingCRF(alpha=likely, tol=TOL), years)
    note = f"alpha {likely:g}, certified gap {certified(model):.0e}"
    entries[LIKELY] = replace(entry, note=note)
    n_differences = int(years.X[0].ordinal.sum())
    constant = np.where(np.arange(years.X[0].n_features) < n_differences, -1.0, 0.0)
    entries[CONSTANT] = judge(years, constant)
    passes, theta = chosen(perceptron, PASSES, train)
    note = f"{passes[0]} passes, decay {passes[1]:g}"
    entries[PERCEPTRON] = replace(timed(lambda: perceptron(passes), years)[1], note=note)
    entries[PERCEPTRON + EARLIER] = judge(years, theta)
    strength, theta = chosen(averaged_svm, SVM_ALPHAS, train)
    note = f"alpha {strength:g}"
    entries[SVM] = replace(timed(lambda: averaged_svm(strength), years)[1], note=note)
    entries[SVM + EARLIER] = judge(years, theta)
    model, found = timed(lambda: best_svm(strength), years)
    note = f"alpha {strength:g}, |theta| {np.linalg.norm(model.coef_):.1g}"
    entries[SVM_OPTIMUM] = replace(found, note=note)
    if truth is not None:
        entries[TRUTH] = judge(years, truth)
    return entries


def warm_up() -> None:
    """Compile (or load) what is timed, on few students."""
    years = Years.of(generate_campus([180, 20, 20], random_state=0))
    for model in (MatchingCRF(), perceptron((2, 0.0)), averaged_svm(1e4), best_svm(1e4)):
        fitted(model, years[:1])
        fitted(model, years[1:])


# ---------------------------------------------------------------------- tables
def print_heads(title: str) -> None:
    heads = "".join(f"{f'at {rate:g}':>10}" for rate in RATES)
    print(f"\n{title}; 'at': share of roommates accepted together with that share of other pairs")
    print(f"  {'':<26}{'AUC':>8}{heads}{'mean rank':>11}{'CPU s':>8}")


def print_campus(name: str, entries: dict[str, Entry]) -> None:
    print_heads(name)
    for method, entry in entries.items():
        print_entry(method, [entry], entry.note)


def print_entry(method: str, entries: Sequence[Entry], note: str = "") -> None:
    """A line of means."""
    values = "".join(f"{np.mean([e.accepted(rate) for e in entries]):>10.4f}" for rate in RATES)
    spent = np.mean([entry.seconds for entry in entries])
    seconds = f"{spent:>8.1f}" if spent else f"{'-':>8}"
    print(
        f"  {method:<26}{np.mean([e.auc for e in entries]):>8.4f}{values}"
        f"{np.mean([e.rank for e in entries]):>11.1f}{seconds}   {note}".rstrip(),
        flush=True,
    )


def print_means(campuses: list[dict[str, Entry]]) -> None:
    print_heads(f"mean of {len(campuses)} campuses")
    for method in campuses[0]:
        entries = [entries[method] for entries in campuses]
        aucs = "AUC " + " ".join(f"{entry.auc:.4f}" for entry in entries)
        print_entry(method, entries, aucs)


def difference_weights(
    campuses: list[dict[str, Entry]], n_questions: int, method: str = LIKELY
) -> np.ndarray:
    """Learned weights of differences, shape (n_campuses, n_questions)."""
    return np.array([entries[method].theta[:n_questions] for entries in campuses])


def print_weights(questions: list[str], learned: np.ndarray, truth: np.ndarray | None) -> None:
    print(f"\nweights of differences, {LIKELY}")
    heads = "".join(f"{f'campus {k + 1}':>10}" for k in range(len(learned)))
    print(f"  {'':<26}{heads}{'mean':>10}" + (f"{'true':>10}" if truth is not None else ""))
    for q in np.argsort(learned.mean(axis=0) if truth is None else truth, kind="stable"):
        cells = "".join(f"{value:>10.3f}" for value in [*learned[:, q], learned[:, q].mean()])
        known = f"{truth[q]:>10.3f}" if truth is not None else ""
        print(f"  {questions[q]:<26}{cells}{known}")
    if truth is not None:
        found = "".join(f"{spearmanr(row, truth).statistic:>10.3f}" for row in learned)
        print(f"  {'rank correlation to truth':<26}{found}")


def order_of(weights: np.ndarray, questions: list[str]) -> list[str]:
    """The strong questions, the most important first."""
    return sorted(STRONG, key=lambda name: weights[questions.index(name)])


def same_order(weights: np.ndarray, truth: np.ndarray, questions: list[str]) -> bool:
    return order_of(weights, questions) == order_of(truth, questions)


def print_path(questions: list[str], paths: np.ndarray, truth: np.ndarray) -> list[int]:
    """Strong questions by alpha; paths has shape (n_campuses, n_alphas, n_questions).

    Regularisation shrinks weights of rare answers most: few pairs differ in smoking.
    """
    print("\nstrong questions by alpha (mean of campuses), and campuses with the true order")
    print(f"  {'alpha':<10}" + "".join(f"{name:>14}" for name in STRONG) + f"{'order':>10}")
    kept = []
    for k, alpha in enumerate(ALPHAS):
        mean = paths[:, k].mean(axis=0)
        kept.append(sum(same_order(path[k], truth, questions) for path in paths))
        cells = "".join(f"{mean[questions.index(name)]:>14.3f}" for name in STRONG)
        print(f"  {alpha:<10g}{cells}{f'{kept[-1]} of {len(paths)}':>10}")
    cells = "".join(f"{truth[questions.index(name)]:>14.3f}" for name in STRONG)
    print(f"  {'true':<10}{cells}", flush=True)
    return kept


def verdicts(
    campuses: list[dict[str, Entry]], questions: list[str], truth: np.ndarray | None
) -> dict[str, bool]:
    print()
    above = all(
        entries[OURS].auc > max(entries[rival].auc for rival in RIVALS) for entries in campuses
    )
    found = {
        "auc": verdict("AUC above constant, perceptron and SVM on all campuses", above),
    }
    if truth is not None:
        learned = difference_weights(campuses, len(questions))
        places = [questions.index(name) for name in STRONG]
        agree = bool((np.sign(learned[:, places]) == np.sign(truth[places])).all())
        ordered = all(same_order(row, truth, questions) for row in learned)
        found["signs"] = verdict("signs of strong questions match on all campuses", agree)
        found["order"] = verdict("order of strong questions matches on all campuses", ordered)
        ranking = difference_weights(campuses, len(questions), OURS)
        ordered = all(same_order(row, truth, questions) for row in ranking)
        found["order by AUC"] = verdict("the same at the alpha that AUC chooses", ordered)
    return found


# ---------------------------------------------------------------------- from the command line
def alpha_path(years: Years) -> np.ndarray:
    """Weights of differences for all ALPHAS, trained on all years but the last."""
    n_questions = int(years.X[0].ordinal.sum())
    path = MatchingCRF(tol=TOL).fit_path(years[:-1].X, years[:-1].Y, ALPHAS)
    return path.coefs[:, :n_questions]


def run(campuses: Sequence[Campus], alpha: float | None, folder: Path) -> dict[str, Any]:
    """All campuses (made one by one), tables, verdicts and the picture."""
    found, paths, truth = [], [], None
    questions: list[str] = []
    for k, campus in enumerate(campuses):
        years = Years.of(campus)
        questions = [question.name for question in campus.questions]
        if campus.true_theta is not None:
            truth = years.X[0].shortest_equivalent(campus.true_theta)[: len(questions)]
            paths.append(alpha_path(years))
        sizes = ", ".join(str(len(y)) for y in years.Y)
        entries = run_campus(years, alpha, campus.true_theta)
        print_campus(f"campus {k + 1} ({sizes} students)", entries)
        found.append(entries)
    if len(found) > 1:
        print_means(found)
    learned = difference_weights(found, len(questions))
    print_weights(questions, learned, truth)
    kept = print_path(questions, np.array(paths), truth) if truth is not None else []
    held = verdicts(found, questions, truth)
    folder.mkdir(parents=True, exist_ok=True)
    draw(found[0], questions, learned, truth, folder / "roommates.png")
    numbers = {
        "aucs": {name: [entries[name].auc for entries in found] for name in found[0]},
        "seconds": {name: [entries[name].seconds for entries in found] for name in found[0]},
        "weights": dict(zip(questions, learned.T.tolist(), strict=True)),
        "true_weights": None if truth is None else truth.tolist(),
        "true_order_by_alpha": dict(zip(map(str, ALPHAS), kept, strict=False)),
        "verdicts": held,
    }
    (folder / "roommates.json").write_text(json.dumps(numbers, indent=1))
    return numbers


def draw(
    entries: dict[str, Entry],
    questions: list[str],
    learned: np.ndarray,
    truth: np.ndarray | None,
    file: Path,
) -> None:
    """The curves of the first campus and the weights of all."""
    from mlestruct.plotting.roommates import plot_roommates

    curves = (OURS, TRUTH, PERCEPTRON + EARLIER, PERCEPTRON, SVM, CONSTANT)
    shown = [name for name in curves if name in entries]
    figure = plot_roommates({name: entries[name].roc for name in shown}, questions, learned, truth)
    figure.savefig(file, dpi=150)
    print(f"\npicture: {file}")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description="Learning who chooses whom as a roommate")
    parser.add_argument("--students", type=int, default=2400, help="in each year, about")
    parser.add_argument("--seeds", type=int, default=3, help="number of generated campuses")
    parser.add_argument("--alpha", type=float, help="of the CRF (default: chosen by validation)")
    parser.add_argument("--data", help="folder with own files of at least 3 years")
    parser.add_argument("--output", default="results/roommates", help="folder of the picture")
    options = parser.parse_args(arguments)
    if options.data is None:
        if options.seeds < 1 or options.students < 4 or options.students % 2:
            parser.error("--seeds: at least 1; --students: an even number from 4")
        campuses: Any = (generate_campus(options.students, random_state=seed)
                         for seed in range(options.seeds))  # fmt: skip
    else:
        own = read_campus(options.data)
        if len(own.years) < 3:
            parser.error(f"--data: expected at least 3 years, got {len(own.years)}")
        campuses = [own]
    warm_up()
    return run(campuses, options.alpha, Path(options.output))


if __name__ == "__main__":
    main()
