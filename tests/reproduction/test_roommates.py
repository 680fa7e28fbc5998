"""The roommate experiment from end to end at toy size."""

import json

import numpy as np
import pytest
from experiment_runs import claim
from scipy.integrate import trapezoid

from mlestruct import MatchingCRF
from mlestruct.baselines import StructuredPerceptron
from mlestruct.datasets import generate_campus
from reproduction import roommates as methods
from reproduction.questionnaires import true_theta
from reproduction.roommates import (
    PAPER_LAMBDAS,
    PAPER_RANGE,
    PUBLISHED,
    RATES,
    CampusResult,
    Years,
    auc_of,
    evaluated,
    hamming_error,
    ranks,
)
from reproduction.runner import judged, plain

TINY = {
    "data": "generated",
    "why": "small",
    "students": 40,
    "seeds": [0, 1],
    "alphas": [100.0, 10.0],
    "tol": 1e-6,
    "perceptron_passes": [1, 3],
    "perceptron_decays": [0.0, 1.0],
    "svm_lambdas": {PAPER_LAMBDAS: [1.0], "lambda above 1000": [1e4, 1e6]},
    "svm_passes": 3,
}


@pytest.fixture(scope="module")
def campus():
    return generate_campus(40, random_state=0)


def found_by(setting):
    """The results of all parts, as they are read from files."""
    parts = methods.parts(setting)
    return {name: json.loads(json.dumps(plain(work()))) for name, work in parts.items()}


def read_results(setting, found):
    return [CampusResult(f"campus {seed + 1}", setting, found) for seed in setting["seeds"]]


@pytest.fixture(scope="module")
def found():
    return found_by(TINY)


# ---------------------------------------------------------------------- from end to end
def test_report_tells_what_the_parts_found(found, tmp_path):
    report = methods.report(TINY, found)
    tables = {table.name: table for table in report.tables}
    for table in report.tables:
        assert {len(row) for row in table.rows} == {len(table.head)}
    for picture in report.pictures:
        picture.figure.savefig(tmp_path / f"{picture.name}.png")
        assert (tmp_path / f"{picture.name}.png").stat().st_size > 10_000
    aucs = {
        (f"campus {k}", name): entry["auc"]
        for k, campus in enumerate(read_results(TINY, found), start=1)
        for name, entry in campus.entries.items()
    }
    assert claim(report, "gains above random guesses").holds is None
    for k in (1, 2):
        part = found[f"campus {k}, perceptron"][methods.PERCEPTRON]
        assert aucs[f"campus {k}", methods.PERCEPTRON] == part["auc"]
    for row in tables["methods"].rows:
        assert row[1] == pytest.approx(np.mean([aucs[f"campus {k}", row[0]] for k in (1, 2)]), 1e-3)
    chosen = {row[0]: row[-1] for row in tables["methods"].rows}
    assert " of 2, " in chosen[methods.OURS]  # alphas
    assert " of 4, " in chosen[methods.PERCEPTRON]  # decays and passes
    assert chosen[methods.MLE] == "alpha 100"


def test_published_numbers_have_notes(found):
    report = methods.report(TINY, found)
    assert len(report.comparisons) == len(PUBLISHED) + 2
    assert all(one.note for one in report.comparisons)
    rivals = [one for one in report.comparisons if "SVM" in one.what]
    assert [one.published for one in rivals] == [0.504, 0.9992]
    in_range = [found[f"campus {k}, SVM, {PAPER_LAMBDAS}"][methods.SVM]["auc"] for k in (1, 2)]
    assert rivals[0].ours == pytest.approx(np.mean(in_range))
    assert not methods.report({**TINY, "why": "quick"}, found).comparisons


def test_generated_campuses_decide_nothing_about_students(found):
    report = methods.report(TINY, found)
    paper = [judged(one, TINY) for one in report.claims if one.whose == "paper"]
    assert {one["verdict"] for one in paper} == {"not decided here"}
    # What was planted is compared in the form to which the ridge penalty leads.
    first = found["campus 1, nothing learned"]
    assert first["true_weights"][first["questions"].index("smoking")] == pytest.approx(-1.2)


def test_the_better_range_of_lambdas_is_shown(found):
    (first, _) = read_results(TINY, found)
    regions = {region: found[f"campus 1, SVM, {region}"] for region in TINY["svm_lambdas"]}
    name = methods.SVM
    best = max(regions, key=lambda region: regions[region][name]["validation"])
    assert first.auc(name) == regions[best][name]["auc"]
    assert first.auc(name + PAPER_RANGE) == regions[PAPER_LAMBDAS][name]["auc"]
    changed = json.loads(json.dumps(found))
    changed[f"campus 1, SVM, {PAPER_LAMBDAS}"][methods.SVM] |= {
        "validation": 2.0,
        "auc": 0.123,
    }
    assert read_results(TINY, changed)[0].auc(methods.SVM) == 0.123


# ---------------------------------------------------------------------- methods
def test_lambda_is_kept_when_years_are_added(campus, monkeypatch):
    asked, fitted = [], methods.fitted

    def recording(model, years):
        assert model.solver.averaging
        asked.append(model.alpha)
        return fitted(model, years)

    monkeypatch.setattr(methods, "fitted", recording)
    years = Years.of(campus)
    by_pass = methods.svm_by_pass(50.0, 2, years[:1])
    assert sorted(by_pass) == [1, 2]
    methods.svm_by_pass(50.0, 2, years[:2])
    assert asked == [50.0, 100.0]


def test_the_published_model_is_over_the_matching_polytope():
    model = methods.published_model(1e-6)
    assert (model.alpha, model.rho, model.polytope) == (100.0, 1.0, "exact")


def test_passes_of_one_fit_are_those_of_shorter_fits(campus):
    years = Years.of(campus)[:2]
    long = methods.perceptron_by_pass(1.0, 4, years)
    for count in (1, 2, 3):
        short = methods.perceptron_by_pass(1.0, count, years)
        np.testing.assert_allclose(long[count], short[count], rtol=1e-12)
    long = methods.svm_by_pass(1e3, 4, years)
    for count in (1, 2, 3):
        short = methods.svm_by_pass(1e3, count, years)
        np.testing.assert_allclose(long[count], short[count], rtol=1e-12)


def test_the_rate_of_the_perceptron_changes_nothing_but_the_scale(campus):
    years = Years.of(campus)[:2]
    one, ten = (
        MatchingCRF(
            polytope="exact", random_state=0, solver=StructuredPerceptron(max_iter=5, rate=rate)
        ).fit(years.X, years.Y)
        for rate in (1.0, 8.0)
    )
    np.testing.assert_allclose(ten.coef_, 8.0 * one.coef_, rtol=1e-12)


# ---------------------------------------------------------------------- evaluation
def score_table(features, theta):
    """Scores of all pairs as a symmetric matrix."""
    table = np.zeros((features.n_people, features.n_people))
    table[np.triu_indices(features.n_people, 1)] = features.scores(theta)
    return table + table.T


def test_curves_are_those_of_all_pairs(campus):
    years = Years.of(campus)
    truth = true_theta(campus)
    table, partner = score_table(years.features[-1], truth), years.Y[-1]
    i, j = np.triu_indices(partner.size, 1)
    wrong = table[i, j][partner[i] != j]
    own = table[i, j][partner[i] == j][:, None]
    auc = np.mean((own > wrong) + 0.5 * (own == wrong))
    found = evaluated(years, truth)
    assert found["auc"] == auc_of(years, truth) == pytest.approx(auc)
    assert auc > 0.6
    assert len(found["curve"]) == RATES.size
    assert (found["curve"][-1], np.all(np.diff(found["curve"]) >= 0.0)) == (1.0, True)
    # Where no scores are equal, the area under the thinned curve is nearly the AUC.
    assert trapezoid(found["curve"], RATES) == pytest.approx(auc, abs=0.02)


def all_perfect_matchings(people):
    if not people:
        yield ()
        return
    first, *rest = people
    for k, partner in enumerate(rest):
        for others in all_perfect_matchings(rest[:k] + rest[k + 1 :]):
            yield ((first, partner), *others)


def test_hamming_error_is_that_of_the_best_matching():
    campus = generate_campus([8, 8, 8], random_state=3)
    years = Years.of(campus)
    features, partner = years.features[0], years.Y[0]
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(20):
        theta = rng.normal(size=features.n_features)
        table = score_table(features, theta)
        best = max(all_perfect_matchings(list(range(8))), key=lambda m: sum(table[p] for p in m))
        errors.append(np.mean([partner[i] != j for i, j in best]))
        assert hamming_error(features, partner, theta) == pytest.approx(errors[-1])
    assert len(set(errors)) > 1


def test_equal_weights_share_a_rank():
    assert ranks(np.array([-0.5, 0.0, -1.0, 0.0])).tolist() == [2, 3, 1, 3]
