"""Candidate pairs as data frames: ids in, ids out, names kept, odd frames told."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import log_loss

import mlestruct
from mlestruct import BipartiteMatchingCRF, EdgeList, MatchingCRF, PairInput

polars = pytest.importorskip("polars")


def two_tables(seed=0, n=12, n_right=14):
    """Two frames of records, candidate pairs in a random order, and the true links."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 2))
    left = pd.DataFrame(values, index=[f"l{i}" for i in range(n)], columns=["u", "v"])
    other = np.concatenate([values[: n - 3] + 0.2 * rng.normal(size=(n - 3, 2)),
                            rng.normal(size=(n_right - n + 3, 2))])  # fmt: skip
    right = pd.DataFrame(other, index=[f"r{j}" for j in range(n_right)], columns=["u", "v"])
    keep = rng.random((n, n_right)) < 0.6
    keep[np.arange(n - 3), np.arange(n - 3)] = True
    row, col = np.nonzero(keep)
    order = rng.permutation(row.size)
    row, col = row[order], col[order]
    index = pd.MultiIndex.from_arrays([left.index[row], right.index[col]], names=["old", "new"])
    pairs = pd.DataFrame(-np.abs(values[row] - other[col]), index=index, columns=["u", "v"])
    pairs["bias"] = 1.0
    links = pd.MultiIndex.from_arrays([left.index[: n - 3], right.index[: n - 3]])
    mask = sparse.csr_array((np.ones(row.size), (row, col)), shape=(n, n_right))
    table = np.zeros((n, n_right, 3))
    table[row, col] = pairs.to_numpy()
    partner = np.where(np.arange(n) < n - 3, np.arange(n), -1)
    return left, right, pairs, links, PairInput(table, mask=mask), partner


def test_a_frame_is_the_same_problem_as_arrays():
    left, right, pairs, links, arrays, partner = two_tables()
    sample = PairInput.from_frame(pairs, left, right)
    model = BipartiteMatchingCRF(perfect=False).fit([sample], [links])
    plain = BipartiteMatchingCRF(perfect=False).fit([arrays], [partner])
    np.testing.assert_allclose(model.coef_, plain.coef_)
    assert model.feature_names_in_.tolist() == ["u", "v", "bias"]
    assert list(model.named_coef()) == ["u", "v", "bias"]
    (found,) = model.predict_links([sample])
    assert found.index.equals(pairs.index)
    table = plain.predict_marginals([arrays])[0].toarray()
    row = left.index.get_indexer(pairs.index.get_level_values(0))
    col = right.index.get_indexer(pairs.index.get_level_values(1))
    np.testing.assert_allclose(found["probability"], table[row, col], atol=1e-6)
    (best,) = plain.predict([arrays])
    np.testing.assert_array_equal(found["linked"], best[row] == col)
    assert model.score([sample], [links]) == plain.score([arrays], [partner])
    curve, other = model.events([sample], [links]), plain.events([arrays], [partner])
    assert log_loss(*curve[:2]) == pytest.approx(log_loss(*other[:2]), abs=1e-6)


def test_links_may_be_given_in_every_form(tmp_path):
    left, right, pairs, links, _, partner = two_tables()
    columns = pairs.reset_index()
    by_columns = PairInput.from_frame(columns, left, right.index, ids=("old", "new"))
    by_index = PairInput.from_frame(pairs, left.index, right)
    polar = polars.from_dicts(columns.to_dict("records"))
    by_polars = PairInput.from_frame(
        polar, list(left.index), right.index, ids=("old", "new"), features=["u", "v", "bias"]
    )
    frame = links.to_frame(index=False, name=["old", "new"])
    forms = [
        list(links),
        links,
        frame,
        frame.set_axis([0, 1], axis=1),
        links.to_frame(),
        pairs.index.isin(links),
    ]
    coefs = [
        BipartiteMatchingCRF(perfect=False).fit([sample], [label]).coef_
        for sample in (by_columns, by_index)
        for label in [*forms, partner]
    ]
    model = BipartiteMatchingCRF(perfect=False).fit(
        [by_polars], [polars.from_dicts(frame.to_dict("records"))]
    )
    np.testing.assert_allclose(coefs, [model.coef_] * len(coefs))
    (answer,) = model.predict_links([by_polars])
    assert isinstance(answer, polars.DataFrame)
    assert answer.columns == ["old", "new", "probability", "linked"]
    model.save(tmp_path / "model.mls")
    (again,) = mlestruct.load(tmp_path / "model.mls").predict_links([by_columns])
    assert again.columns.tolist() == ["old", "new", "probability", "linked"]
    np.testing.assert_allclose(again["probability"], answer["probability"].to_numpy())
    assert again["old"].tolist() == columns["old"].tolist()


def test_chosen_links_have_the_quality_that_was_asked_for():
    left, right, pairs, links, *_ = two_tables(3, 30, 34)
    sample = PairInput.from_frame(pairs, left, right)
    model = BipartiteMatchingCRF(perfect=False, alpha=0.01).fit([sample], [links])
    best = model.predict_links([sample])[0]
    f1 = model.predict_links([sample], choose="f1")[0]
    precise = model.predict_links([sample], precision=0.7)[0]
    total = best["probability"].sum()

    def expected_f1(frame):
        chosen = frame["probability"][frame["linked"]]
        return 2 * chosen.sum() / (chosen.size + total)

    assert precise["linked"].any()
    assert expected_f1(f1) >= max(expected_f1(best), expected_f1(precise))
    assert precise["probability"][precise["linked"]].mean() >= 0.7
    for frame in (best, f1, precise):
        chosen = frame.index[frame["linked"]]
        assert chosen.get_level_values(0).is_unique
        assert chosen.get_level_values(1).is_unique
    with pytest.raises(ValueError, match="choose"):
        model.predict_links([sample], choose="recall")
    with pytest.raises(ValueError, match="not both"):
        model.predict_links([sample], choose="f1", precision=0.9)


def test_links_beyond_the_candidates_are_left_out_with_a_warning():
    left, right, pairs, links, *_ = two_tables()
    fewer = pairs.drop(index=links[:2])
    sample = PairInput.from_frame(fewer, left, right)
    with pytest.warns(UserWarning, match=r"Y\[0\]: 2 of 9 links are not among the candidate"):
        model = BipartiteMatchingCRF(perfect=False).fit([sample], [links])
    assert model.score([sample], [links]) <= 10 / 12  # a record without its candidate is missed


def test_known_links_by_ids():
    left, right, pairs, links, *_ = two_tables()
    sample = PairInput.from_frame(pairs, left, right)
    model = BipartiteMatchingCRF(perfect=False).fit([sample], [links])
    other = [pair for pair in pairs.index if pair[0] == "l0" and pair[1] != "r0"][:1]
    given = pd.MultiIndex.from_tuples(other)
    place = [[0, right.index.get_loc(other[0][1])]]
    for choose in ("map", "f1"):
        (found,) = model.predict_links([sample], choose, known=[given])
        assert found.loc[other[0], "probability"] == pytest.approx(1.0)
        assert found.loc[other[0], "linked"]
        assert not found.loc[("l0", "r0"), "linked"]
    table = model.predict_marginals([sample], known=[np.array(place)])[0].toarray()
    row = left.index.get_indexer(pairs.index.get_level_values(0))
    col = right.index.get_indexer(pairs.index.get_level_values(1))
    np.testing.assert_allclose(found["probability"], table[row, col], atol=1e-9)


def test_pairs_within_one_table(tmp_path):
    rows = [{"a": f"p{i}", "b": f"p{j}", "near": float(-abs(i - j)), "bias": 1.0}
            for i in range(8) for j in range(i)]  # fmt: skip
    pairs = pd.DataFrame(rows).sample(frac=1.0, random_state=0)
    couples = pd.DataFrame({"a": ["p0", "p3", "p4"], "b": ["p1", "p2", "p6"]})
    sample = EdgeList.from_frame(pairs, ids=("a", "b"))
    model = MatchingCRF(perfect=False, alpha=0.1).fit([sample], [couples])
    (found,) = model.predict_links([sample], choose="f1")
    assert found[["a", "b"]].equals(pairs[["a", "b"]])
    nodes = [f"p{i}" for i in range(8)]
    table = np.zeros((8, 8, 2))
    for one in rows:
        i, j = nodes.index(one["a"]), nodes.index(one["b"])
        table[i, j] = table[j, i] = one["near"], 1.0
    plain = MatchingCRF(perfect=False, alpha=0.1).fit([table], [[1, 0, 3, 2, 6, -1, 4, -1]])
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-6)
    marginals = plain.predict_marginals([table])[0]
    expected = [marginals[nodes.index(a), nodes.index(b)] for a, b in found[["a", "b"]].values]
    np.testing.assert_allclose(found["probability"], expected, atol=1e-5)
    positions = plain.predict_links([table])[0]
    assert positions.columns.tolist() == ["node", "partner", "probability", "linked"]


@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
@pytest.mark.parametrize("kind", ["array", "frame", "sparse"])
def test_rows_of_features_follow_the_mask(form, kind):
    _, _, pairs, _, arrays, partner = two_tables()
    rng = np.random.default_rng(2)
    row, col = np.nonzero(arrays.mask.toarray())
    order = rng.permutation(row.size) if form == "coo" else np.arange(row.size)
    row, col = row[order], col[order]
    features = arrays.features[row, col]
    if kind == "frame":
        features = pd.DataFrame(features, columns=list(pairs.columns))
    elif kind == "sparse":
        features = sparse.csr_array(features)
    mask = sparse.coo_array((np.ones(row.size), (row, col)), shape=arrays.mask.shape).asformat(form)
    crf = BipartiteMatchingCRF(perfect=False, tol=1e-9)
    model = clone(crf).fit([PairInput(features, mask=mask)], [partner])
    np.testing.assert_allclose(model.coef_, crf.fit([arrays], [partner]).coef_, atol=1e-4)
    if kind == "frame":
        assert list(model.named_coef()) == list(pairs.columns)
    offset = rng.normal(size=row.size)  # in the order of the rows
    model.coef_ = np.zeros_like(model.coef_)
    scores = model.pair_scores([PairInput(features, mask=mask, offset=offset)])[0]
    np.testing.assert_array_equal(scores.toarray()[row, col], offset)


LEFT = [f"l{i}" for i in range(12)]
ODD = {  # what becomes of the frame of pairs, how it is read, and the error
    "MultiIndex with two levels, or two columns": (lambda p: p.reset_index(), {}),
    "no column 'id'": (lambda p: p, {"ids": ("id", "u")}),
    "column 'name' holds .*, not numbers": (lambda p: p.assign(name="x"), {}),
    "column 'u' has nan in row 3": (
        lambda p: p.assign(u=np.where(np.arange(len(p)) == 3, np.nan, 1)),
        {},
    ),
    "no column 'w'": (lambda p: p, {"features": ["u", "w"]}),
    "several columns 'u'": (lambda p: pd.concat([p, p[["u"]]], axis=1), {}),
    "occurs twice": (lambda p: pd.concat([p, p.iloc[:1]]), {}),
    "data frame; got list": (lambda p: [1, 2], {}),
    r"the id in row 1 is missing \(nan\)": (
        lambda p: pd.DataFrame({"a": ["p", np.nan], "b": ["q", "r"], "u": 1.0}),
        {"ids": ("a", "b")},
    ),
    r"'l11' in row .* not among the ids of left": (lambda p: p, {"left": LEFT[:-1]}),
    "left: id 'l0' occurs twice": (lambda p: p, {"left": [*LEFT, "l0"]}),
}  # fmt: skip


@pytest.mark.parametrize("message", ODD)
def test_odd_frames_are_named(message):
    change, options = ODD[message]
    with pytest.raises((ValueError, TypeError), match=message):
        PairInput.from_frame(change(two_tables()[2]), **options)


def test_odd_links_are_named():
    left, right, pairs, links, arrays, _ = two_tables()
    sample = PairInput.from_frame(pairs, left, right)
    model = BipartiteMatchingCRF(perfect=False)
    twice = pairs.index[[k[0] == "l0" for k in pairs.index]][:2]
    for given, label, message in (
        (sample, pd.DataFrame({"old": ["zz"], "new": ["r0"]}), r"id 'zz' in row 0 is not among"),
        (sample, np.ones(3, dtype=bool), "expected .* booleans"),
        (sample, pd.Series(np.zeros(len(pairs), dtype=bool)), "its index differs"),
        (sample, twice, "row 0 has 2 partners, it must have at most 1"),
        (arrays, links, "links are ids, but the sample has none"),
    ):
        with pytest.raises((ValueError, TypeError), match=rf"Y\[0\]: .*{message}"):
            model.fit([given], [label])
    with pytest.raises(TypeError, match=r"got PairInput; for a single sample pass \[X\]"):
        model.fit(sample, links)
    renamed = PairInput.from_frame(pairs.rename(columns={"u": "w"}), left, right)
    model.fit([sample], [links])
    with pytest.raises(ValueError, match="feature 0 is 'w', in fit it was 'u'"):
        model.predict_links([renamed])
    mask = sparse.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(2, 2))
    with pytest.raises(ValueError, match=r"mask has the pair .* twice"):
        model.fit([PairInput(np.ones((2, 3)), mask=mask)], [[-1, -1]])
