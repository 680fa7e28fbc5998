"""Questions: which answers are the same, and which are not."""

import numpy as np
import pandas as pd
import pytest

from mlestruct.pairing import guess_questions


def test_large_numbers_stay_apart():
    table = pd.DataFrame({"code": [10000001, 10000002, 10000001, 10000003]})
    (question,) = guess_questions(table)
    assert question.answers == ("10000001", "10000002", "10000003")
    np.testing.assert_array_equal(question.encode(["10000002", "1.0000003e7", "4"]), [1, 2, np.nan])
    times = pd.DataFrame({"time": 1.6e9 + np.arange(50)})
    (question,) = guess_questions(times)
    assert np.bincount(question.encode(times["time"].astype(str)).astype(int)).tolist() == [10] * 5


def test_spellings_of_one_answer_are_one():
    table = pd.DataFrame(
        {"pet": ["Cat", " cat", "dog", None, "DOG"], "rooms": [1, 2.0, 2, 1, None]}
    )
    pet, rooms = guess_questions(table)
    assert [len(pet.answers), rooms.answers] == [2, ("1", "2")]
    np.testing.assert_array_equal(pet.encode(table["pet"].fillna("")), [0, 0, 1, np.nan, 1])
    with pytest.raises(ValueError, match="no column is a question"):
        guess_questions(pd.DataFrame({"pet": ["Cat", "cat"]}))
