"""Roommates: learning from questionnaires who chose to live with whom (table, figure, weights).

The paper's records cannot be had, so campuses are generated from known weights. The last year of a
campus is the test, all earlier years train, and only students with a roommate count.

Whatever has to be chosen is chosen in the same way for every method: train on all training years
but the last, take the choice with the highest AUC on that last one, train again on all of them.
What the perceptron and the SVM learn depends so much on when they stop that a choice need not suit
more data, so the very weights that were best at choosing are evaluated as well ("as chosen").

    MLE, as published  over the polytope of matchings, at the paper's rho = 1 and alpha = 100
    MLE, rho=.95       over the local polytope; alpha is chosen
    perceptron         the number of passes and the decay of its rate are chosen
    SVM                the average of its iterates; lambda and the number of passes are chosen
    constant           weight -1 for every difference

The SVM minimises lambda/2 |theta|^2 + the mean of the years' hinge losses, whose loss is the share
of wrong roommates; alpha is then lambda times the number of years.
"""

import time
import warnings
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score, roc_curve

from mlestruct import MatchingCRF, PairInput
from mlestruct.baselines import StructuredPerceptron, StructuredSVM
from mlestruct.datasets import generate_campus
from mlestruct.plotting.style import COLOURS, DASHES, GREY, clean_axes, new_figure
from mlestruct.structures import MatchingPolytope

from .questionnaires import AnswerPairs, true_theta
from .runner import STAND_IN, Claim, Comparison, Picture, Report, Table, listed

TITLE = "Roommates: which questions count, and how well roommates are told from other pairs"
PLACE = "section on unipartite perfect matchings, table and figure; appendix, table of weights"
SOLVERS = (
    "all CRFs by auto (L-BFGS over marginals), 'as published' over the matching polytope; "
    "the SVM is block-coordinate Frank-Wolfe and the perceptron the averaged one of "
    "mlestruct.baselines, not the authors' programs; both decode by the blossom algorithm."
)

MLE, OURS = "MLE, as published", "MLE, rho=.95"
PERCEPTRON, SVM = "perceptron", "SVM"
CONSTANT, TRUTH = "constant", "truth"
AS_CHOSEN = ", as chosen"  # weights of fewer years, not trained again
PAPER_RANGE = ", lambda as published"  # the best of the lambdas that the paper tried
PAPER_LAMBDAS, ABOVE = "lambda up to 1000", "lambda above 1000"
RATES = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 200)])  # of false positives, on all curves
LOW_RATES = (1e-4, 1e-1)  # where curves are compared
STRONG = ("smoking", "personality", "bed time")  # said to need the closest agreement
WEAK = ("cleanliness", "study hours", "study location")  # said to be among the least important
PUBLISHED = {  # by question of the paper's survey: its weight, and its name in the generated one
    "bed time": (-0.0296, "bed time"),
    "wake time": (-0.0218, "wake time"),
    "rising sophomore": (0.0, None),
    "cleanliness": (-0.0056, "cleanliness"),
    "smoking": (-0.0484, "smoking"),
    "sleeping habits": (-0.0025, "sleeping"),
    "overnight guests": (-0.0097, "overnight guests"),
    "personality": (-0.037, "personality"),
    "study hours": (0.0131, "study hours"),
    "study location": (-0.0006, "study location"),
    "audio or video while studying": (-0.0133, "audio while studying"),
    "single-sex floor (1)": (0.2277, None),
    "single-sex floor (2)": (0.0518, None),
    "allow in Brownstone": (0.0, None),
}


def setting(quick):
    """One campus is generated for each seed."""
    return {
        "data": "generated",
        "why": "quick" if quick else "the paper's records are not public",
        "students": 160 if quick else 2400,
        "seeds": [0] if quick else [0, 1, 2],
        "alphas": [100.0, 30.0, 10.0, 3.0, 1.0]
        if quick
        else [1000.0, 300.0, 100.0, 30.0, 10.0, 3.0],
        "tol": 1e-6,
        "perceptron_passes": [1, 3, 10, 30] if quick else [1, 2, 3, 5, 10, 20, 30, 60, 100],
        "perceptron_decays": [0.0, 1.0] if quick else [0.0, 0.1, 1.0, 10.0],
        "svm_lambdas": {
            PAPER_LAMBDAS: [1e-4, 1e-1, 1e2] if quick else [10.0**k for k in range(-4, 4)],
            ABOVE: [1e4, 1e6] if quick else [10.0**k for k in range(4, 10)],
        },
        "svm_passes": 9 if quick else 13,
    }


def parts(setting):
    """Families of methods, campus by campus."""
    work = {
        "nothing learned": not_learned,
        "ours": maximum_likelihood,
        "perceptron": perceptron,
        **{f"SVM, {region}": partial(svm, region) for region in setting["svm_lambdas"]},
    }
    return {
        f"campus {seed + 1}, {family}": partial(on_campus, setting, seed, method)
        for seed in setting["seeds"]
        for family, method in work.items()
    }


def report(setting, found):
    campuses = [CampusResult(f"campus {seed + 1}", setting, found) for seed in setting["seeds"]]
    sizes = [n for campus in campuses for n in campus.students]
    return Report(
        tables=[
            methods_table(campuses),
            weights_table(campuses),
        ],
        claims=claims(campuses),
        pictures=[roc_picture(campuses)],
        comparisons=[] if setting["why"] == "quick" else comparisons(campuses),
        summary=[
            f"{len(campuses)} campuses of {min(sizes)} to {max(sizes)} students a year, the last "
            "year of each to test."
        ],
    )


# ---------------------------------------------------------------------- data
@dataclass(frozen=True)
class Years:
    """Features of all pairs, and partners, year by year."""

    X: list
    Y: list

    @classmethod
    def of(cls, campus):
        years = [year.paired() for year in campus.years]
        features = [AnswerPairs(campus.questions, year.answers) for year in years]
        X = [PairInput(own, shape=(own.n_people, own.n_people)) for own in features]
        return cls(X, [year.partner for year in years])

    @property
    def features(self):
        return [x.features for x in self.X]

    def __getitem__(self, which):
        return Years(self.X[which], self.Y[which])

    def __len__(self):
        return len(self.Y)


@cache
def load(n_students, seed):
    return generate_campus(n_students, random_state=seed)


def on_campus(setting, seed, method):
    warm_up()
    return method(load(setting["students"], seed), setting)


@cache
def warm_up():
    """Compile what is timed, on few students."""
    years = Years.of(generate_campus([180, 20, 20], random_state=0))
    for some in (years[:1], years[1:]):
        fitted(MatchingCRF(), some)
        perceptron_by_pass(0.0, 2, some)
        svm_by_pass(1e4, 2, some)


# ---------------------------------------------------------------------- how good weights are
def pairs_of_last_year(years, theta):
    """Whether each pair i < j is observed, and its score."""
    i, j = np.triu_indices(years.Y[-1].size, 1)
    return years.Y[-1][i] == j, years.features[-1].scores(theta)


def auc_of(years, theta):
    """The AUC in the last of the years."""
    return float(roc_auc_score(*pairs_of_last_year(years, theta)))


def hamming_error(features, partner, theta):
    """The share of students whose roommate the best matching gets wrong."""
    space = MatchingPolytope(partner.size)
    best = space.label(space.decode_integral(features.scores(theta)).vertex)
    return float(np.mean(best != partner))


def evaluated(years, theta, note="", **more):
    """Weights, and how good they are in the last of the years."""
    false, true, _ = roc_curve(*pairs_of_last_year(years, theta))
    return {
        "note": note,
        **more,
        "auc": auc_of(years, theta),
        "hamming": hamming_error(years.features[-1], years.Y[-1], theta),
        "curve": np.interp(RATES, false, true),
        "theta": theta,
    }


# ---------------------------------------------------------------------- methods
def not_learned(campus, setting):
    """Weight -1 for every difference and 0 for all else; the truth."""
    years = Years.of(campus)
    features, truth = years.features[0], true_theta(campus)
    n_differences = len(campus.questions)
    constant = np.where(np.arange(features.n_features) < n_differences, -1.0, 0.0)
    shortest = features.shortest_equivalent(truth)
    return {
        CONSTANT: evaluated(years, constant),
        TRUTH: evaluated(years, truth),
        "questions": [question.name for question in campus.questions],
        "students": [len(partner) for partner in years.Y],
        "true_weights": shortest[:n_differences],
    }


def published_model(tol):
    return MatchingCRF(alpha=100.0, rho=1.0, polytope="exact", tol=tol)


def maximum_likelihood(campus, setting):
    """As published, and at the alpha that AUC chooses."""
    years = Years.of(campus)
    train, model = years[:-1], MatchingCRF(rho=0.95, tol=setting["tol"])
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        began = time.process_time()
        path = model.fit_path(years[:-2].X, years[:-2].Y, setting["alphas"])
        tried = [(auc_of(train, each.coef_), each) for each in path.estimators]
        spent = time.process_time() - began
    auc, chosen = max(tried, key=lambda trial: trial[0])
    model.set_params(alpha=chosen.alpha)
    tuned = f" of {len(tried)}, {spent:.0f} s"
    found = {}
    for name, each, note in ((MLE, published_model(setting["tol"]), ""), (OURS, model, tuned)):
        began = time.process_time()
        theta = fitted(each, train).coef_
        seconds = time.process_time() - began
        found[name] = evaluated(years, theta, f"alpha {each.alpha:g}{note}", seconds=seconds)
    return found | {OURS + AS_CHOSEN: evaluated(years, chosen.coef_, validation=auc)}


def perceptron(campus, setting):
    decays, passes = setting["perceptron_decays"], setting["perceptron_passes"]
    return tuned(campus, PERCEPTRON, perceptron_by_pass, "decay", decays, passes)


def svm(region, campus, setting):
    """For all lambdas of a region."""
    lambdas, passes = setting["svm_lambdas"][region], range(1, setting["svm_passes"] + 1)
    return tuned(campus, SVM, svm_by_pass, "lambda", lambdas, passes)


def tuned(campus, name, fit, parameter, strengths, passes):
    """A method for all values of its parameter and all numbers of passes."""
    years = Years.of(campus)
    train = years[:-1]
    began = time.process_time()
    tried = [
        (auc_of(train, theta), strength, count, theta)
        for strength in strengths
        for count, theta in fit(strength, max(passes), years[:-2]).items()
        if count in passes
    ]
    middle = time.process_time()
    auc, strength, count, theta = max(tried, key=lambda trial: trial[0])
    by_pass = fit(strength, count, train)
    seconds = time.process_time() - middle
    note = f"{parameter} {strength:g}, passes {count} of {len(tried)}, {middle - began:.0f} s"
    last = by_pass[max(by_pass)]
    return {
        name: evaluated(years, last, note, seconds=seconds, validation=auc),
        name + AS_CHOSEN: evaluated(years, theta, note, validation=auc),
    }


def fitted(model, years):
    """The baselines stop after their passes, as they should."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return model.fit(years.X, years.Y)


def perceptron_by_pass(decay, passes, years):
    """Averaged weights after each pass."""
    by_pass = {}
    learner = StructuredPerceptron(max_iter=passes, decay=decay, callback=partial(keep, by_pass))
    fitted(MatchingCRF(polytope="exact", random_state=0, solver=learner), years)
    return by_pass


def svm_by_pass(strength, passes, years):
    """Averaged weights after the passes at which the objective was measured."""
    by_pass = {}
    crf = MatchingCRF(
        alpha=strength * len(years), polytope="exact", max_iter=passes, random_state=0,
        tol=1e-12,  # so that it makes all its passes
        solver=StructuredSVM(averaging=True, callback=partial(keep, by_pass)),
    )  # fmt: skip
    fitted(crf, years)
    return by_pass


def keep(by_pass, progress):
    """A callback that keeps the weights after every pass."""
    if progress.iteration > 0:
        by_pass[progress.iteration] = progress.theta.copy()


# ---------------------------------------------------------------------- results
class CampusResult:
    """All methods on one campus; `entries` has what `evaluated` returned."""

    def __init__(self, name, setting, found):
        known = found[f"{name}, nothing learned"]
        self.students, self.questions = known["students"], known["questions"]
        self.true_weights = np.array(known["true_weights"])
        svms = {region: found[f"{name}, SVM, {region}"] for region in setting["svm_lambdas"]}
        self.entries = {
            **found[f"{name}, ours"],
            **found[f"{name}, perceptron"],
            **max(svms.values(), key=lambda entries: entries[SVM]["validation"]),
            SVM + PAPER_RANGE: svms[PAPER_LAMBDAS][SVM],
            CONSTANT: known[CONSTANT],
            TRUTH: known[TRUTH],
        }

    def auc(self, method):
        return self.entries[method]["auc"]


def mean_of(campuses, method, key="auc"):
    return float(np.mean([campus.entries[method][key] for campus in campuses]))


def learned_weights(campuses):
    """Of differences, by the published model, shape (n_campuses, n_questions)."""
    n_questions = len(campuses[0].questions)
    return np.array([campus.entries[MLE]["theta"][:n_questions] for campus in campuses])


def ranks(weights):
    """1 for the most negative weight; equal ones share the first of their ranks."""
    return rankdata(np.round(weights, 12), method="min").astype(int)


def comparisons(campuses):
    """The structured SVM at the best lambda of the paper's range, and the weights of questions."""
    found = []
    for what, key, published in (("AUC", "auc", 0.504), ("Hamming error", "hamming", 0.9992)):
        ours = [campus.entries[SVM + PAPER_RANGE][key] for campus in campuses]
        note = f"other data: {mean_of(campuses, CONSTANT, key):.4f} with constant weights"
        spread = min(ours), max(ours)
        what = f"{what} of the structured SVM"
        found.append(Comparison(what, published, np.mean(ours), spread, note))
    learned = learned_weights(campuses)
    for name, (weight, question) in PUBLISHED.items():
        mean, spread, note = None, None, "no such question in the generated survey"
        if question is not None:
            k = campuses[0].questions.index(question)
            mean, spread = learned[:, k].mean(), (learned[:, k].min(), learned[:, k].max())
            note = f"other data: the true weight is {campuses[0].true_weights[k]:.3f}"
        found.append(Comparison(f"weight of a difference in {name}", weight, mean, spread, note))
    return found


# ---------------------------------------------------------------------- claims
def claims(campuses):
    """Those of the paper are about its students: the runner leaves them undecided.

    What is left to test is whether learning finds the weights that campuses were generated from.
    """

    def means(*names, key="auc"):
        return listed({name: mean_of(campuses, name, key) for name in names}, ".4f")

    questions, truth = campuses[0].questions, campuses[0].true_weights
    learned = learned_weights(campuses)
    places = ranks(learned.mean(axis=0))
    shown = {name: places[questions.index(name)] for name in (*STRONG, *WEAK)}
    near = [np.corrcoef(ranks(row), ranks(truth))[0, 1] for row in learned]
    low = (RATES > 0.0) & (LOW_RATES[1] > RATES)
    ours, constant = (
        np.array([campus.entries[name]["curve"] for campus in campuses])[:, low]
        for name in (MLE, CONSTANT)
    )
    rivals = (PERCEPTRON, SVM, PERCEPTRON + AS_CHOSEN, SVM + AS_CHOSEN)
    ranking = f"ranks among {len(questions)}: {listed(shown, 'd')}; generated in this order"
    paper = {
        "MLE-Struct gains above random guesses and the constant baseline":
            f"mean AUC {means(MLE, CONSTANT)}",
        f"MLE-Struct dominates the constant baseline at rates of false positives below "
        f"{LOW_RATES[1]:g}":
            f"roommates accepted, mean gain {np.mean(ours - constant):.4f}, least "
            f"{np.min(ours - constant):.4f}",
        "Perceptron and SVM have a test AUC below the constant baseline, even after tuning":
            f"mean AUC {means(CONSTANT, *rivals)}",
        "The SVM at the paper's lambdas is better than random, and much worse than MLE":
            f"mean AUC {means(SVM + PAPER_RANGE, MLE)}",
        "Whole matchings are not predicted: the Hamming error is high":
            f"mean {mean_of(campuses, MLE, 'hamming'):.4f}",
        f"{', '.join(STRONG)} need the closest agreement": ranking,
        f"{', '.join(WEAK)} are among the least important": ranking,
    }  # fmt: skip
    return [
        *(Claim(sentence, None, figure, STAND_IN) for sentence, figure in paper.items()),
        Claim(
            "Learning finds the order of the weights that campuses are generated from (our "
            "threshold: a rank correlation of .9 on every campus)",
            min(near) >= 0.9,
            f"rank correlations {min(near):.3f} to {max(near):.3f}",
            whose="ours",
        ),
    ]


# ---------------------------------------------------------------------- tables and the picture
def over(campuses):
    return "one campus" if len(campuses) == 1 else f"means of {len(campuses)} campuses"


def methods_table(campuses):
    rows = []
    for name in campuses[0].entries:
        entries = [campus.entries[name] for campus in campuses]
        aucs = [entry["auc"] for entry in entries]
        spent = [entry["seconds"] for entry in entries if "seconds" in entry]
        rows.append(
            [name, np.mean(aucs).round(4), f"{min(aucs):.4f} to {max(aucs):.4f}",
             np.mean([entry["hamming"] for entry in entries]).round(4),
             np.mean(spent).round(2) if spent else "",
             "; ".join(dict.fromkeys(entry["note"] for entry in entries))]
        )  # fmt: skip
    title = (
        f"In a year not seen, {over(campuses)}: AUC over all pairs; share of students whom the "
        "best matching gives a wrong roommate; CPU seconds of the last fit; what was chosen, of "
        "how many configurations and after how many CPU seconds"
    )
    head = ["method", "AUC", "range", "Hamming error", "CPU s", "chosen"]
    return Table("methods", title, head, rows)


def weights_table(campuses):
    learned, truth = learned_weights(campuses), campuses[0].true_weights
    mean, order = learned.mean(axis=0), np.argsort(truth, kind="stable")
    names = [campuses[0].questions[q] for q in order]
    places = ranks(np.array([weight for weight, _ in PUBLISHED.values()]))
    published = {
        name: (weight, int(place))
        for (weight, name), place in zip(PUBLISHED.values(), places, strict=True)
    }
    columns = {
        "question": names,
        "true": truth[order].round(3),
        "rank": ranks(truth)[order],
        "learned": mean[order].round(3),
        "rank of learned": ranks(mean)[order],
        "range": [f"{row.min():.3f} to {row.max():.3f}" for row in learned.T[order]],
        "published": [published.get(name, (None, None))[0] for name in names],
        "rank of published": [published.get(name, (None, None))[1] for name in names],
    }
    title = (
        f"Weights per level of difference, {over(campuses)}: true and learned by the published "
        "model, with ranks (1: agreement matters most); those of the paper, from other students, "
        f"with ranks among its {len(PUBLISHED)}"
    )
    return Table.of("weights", title, columns)


CURVES = (MLE, OURS, TRUTH, PERCEPTRON + AS_CHOSEN, PERCEPTRON, SVM + AS_CHOSEN, SVM, CONSTANT)


def roc_picture(campuses):
    """ROC curves on two scales: all false-positive rates, and the low ones on a log scale."""
    figure = new_figure(12.0, 5.2)
    left, right = figure.subplots(1, 2)
    low, highest = np.flatnonzero((RATES > 0.0) * (RATES < 0.101)), 0.0
    for k, name in enumerate(CURVES):
        curve = np.mean([campus.entries[name]["curve"] for campus in campuses], axis=0)
        highest = max(highest, curve[low].max())
        for axes in (left, right):
            axes.plot(
                np.maximum(RATES, 1e-12), curve, zorder=10 - k, linewidth=1.8 if k else 2.4,
                color=(*COLOURS, "black")[k % 7], linestyle=DASHES[k % len(DASHES)],
                label=f"{name}, AUC {mean_of(campuses, name):.3f}",
            )  # fmt: skip
    for axes in (left, right):
        axes.plot(RATES, RATES, color=GREY, linewidth=1.0, label="chance, AUC 0.500")
        axes.set_ylabel("share of roommates accepted")
    left.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="share of other pairs accepted")
    right.set_xscale("log")
    right.set(xlim=LOW_RATES, ylim=(0.0, 1.05 * highest or 1.0))
    right.set_xlabel("share of other pairs accepted (log scale)")
    clean_axes(left, "Telling roommates from other pairs in a year not seen")
    clean_axes(right, "Low rates of false positives")
    left.legend(frameon=False, fontsize=9, loc="lower right")
    return Picture(
        "roc",
        f"Roommates told from other pairs in a year not seen, {over(campuses)}: all rates, and "
        "low rates of false positives on a log scale. 'as chosen': the weights that were best "
        "at choosing, from all training years but the last.",
        figure,
    )
