"""Any sentences give labels, any file sentences, or an error that names them."""

import numpy as np
from changed_arrays import OTHERS, answer, fuzzed, options_from
from hypothesis import given
from hypothesis import strategies as st

from mlestruct.tagging import SequenceTagger, read_json_lines, read_sentences, token_features

SENTENCES = [[("the", "D"), ("dog", "N"), ("runs", "V")], [("a", "D"), ("cat", "N")]] * 2
LABELS = [["x", "y", "z"], ["x", "y"]] * 2
OPTIONS = {
    "window": [0, 1, -1, 2.5, "x", None, True],
    "affix": [0, 3, -1, 2.5, "x", None],
    "alpha": [1.0, -1.0, np.nan, "x", None],
    "tol": [0.1, 0.0, "x", None],
}
TOKENS = st.sampled_from(
    [("a", "b"), ("a",), (), "a", "", {"w": 1}, {"w": "x"}, {}, {"w": None}, {3: 4}, None, 3,
     ("a", 3), (None, "b"), ["a", "b"], {"w": [1]}, {"w": np.nan}, {"w": 1j}, b"ab"]
)  # fmt: skip
LINES = st.sampled_from(
    ["", "the\tD\n", "the D\n", "# c\n", "-DOCSTART-\n", "\ufeffa b\n", "a\tb\tc\n", " \n", "\t\n",
     '{"x": [{"a": 1}], "y": ["b"]}', '{"x": []}', "[]", "{", '{"x": [1]}', "3", '{"x": [{}]}',
     '{"x": [{"a": NaN}], "y": [1]}', '{"x": [{"a": 1}], "y": [null]}', "\x00", "a\u2028b"]
)  # fmt: skip
MODEL = SequenceTagger(alpha=1.0).fit(SENTENCES, LABELS)


@fuzzed
@given(data=st.data(), options=options_from(OPTIONS))
def test_sentences(data, options):
    sentences, labels = [list(s) for s in SENTENCES], [list(y) for y in LABELS]
    place = data.draw(st.integers(0, 4))
    if place == 0:
        sentences[0][data.draw(st.integers(0, 2))] = data.draw(TOKENS)
    elif place == 1:
        sentences[1] = data.draw(st.sampled_from(OTHERS))
    elif place == 2:
        labels[0][1] = data.draw(st.sampled_from(OTHERS))
    elif place == 3:
        labels = data.draw(st.sampled_from([*OTHERS, labels[:2], [LABELS[0]] * 4]))
    names = ("sentences", "labels", "Y", "X", *OPTIONS)
    model = SequenceTagger(**{"alpha": 1.0, "tol": 0.1, **options})
    found = answer(model.fit, sentences, labels, names=names)
    if found is not None:
        assert [len(y) for y in found.predict(sentences)] == [len(s) for s in sentences]
    found = answer(MODEL.predict, sentences, names=names)
    assert found is None or len(found) == len(sentences)
    shape = {name: value for name, value in options.items() if name in ("window", "affix")}
    answer(token_features, sentences[0], names=names, **shape)


@fuzzed
@given(lines=st.lists(LINES, max_size=6))
def test_lines(lines):
    found = answer(read_sentences, lines, "file")
    if found is not None:
        assert len({len(token) for sentence in found for token in sentence}) == 1
    found = answer(read_json_lines, lines, "file")
    if found is not None:
        assert [len(x) for x, y in zip(*found, strict=True) if y is not None] == [
            len(y) for y in found[1] if y is not None
        ]
