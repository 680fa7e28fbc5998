"""The recall of candidates, estimated without labels, against the truth."""

import numpy as np
import pytest

from mlestruct.datasets import make_people
from mlestruct.linkage import RecordLinker
from mlestruct.linkage.recall import recall_of_known


def linked(block):
    left, right, truth = make_people(1_000, errors=0.25, random_state=3)
    links = RecordLinker(block=block).fit_link(left, right)
    candidates = set(zip(links.pairs["left"], links.pairs["right"], strict=True))
    return links, np.mean([pair in candidates for pair in truth.itertuples(index=False, name=None)])


@pytest.mark.parametrize("block", [(), ["surname", "birth", "given_name"]])
def test_the_estimate_is_near_the_truth(block):
    links, recall = linked(block)
    assert 0.0 < links.blocking_recall_error < 0.02
    assert abs(links.blocking_recall - recall) <= 3.0 * links.blocking_recall_error + 0.01


@pytest.mark.filterwarnings("ignore:only about")
def test_rules_that_share_a_column_are_not_praised():
    """No candidate differs in it, so the model does not learn what a difference means."""
    links, recall = linked([["surname", "birth"], ["given_name", "birth"]])
    assert recall < 0.7
    assert links.blocking_recall < recall + 0.02


def test_a_low_recall_is_a_warning_that_says_what_to_do():
    left, right, _ = make_people(500, errors=0.4, random_state=0)
    linker = RecordLinker(block=[["given_name", "surname", "birth"]]).fit(left, right)
    with pytest.warns(UserWarning, match=r"only about \d+% of the links .* Pass blocking rules"):
        linker.link(left, right)


def test_recall_of_known_links():
    assert recall_of_known(0, 0, 5) is None
    found = recall_of_known(100, 5, 1_000)
    assert found.share == pytest.approx(0.95)
    assert found.error == pytest.approx(np.sqrt(0.95 * 0.05 / 100))
    with pytest.raises(ValueError, match="none of the 3 links is among the 7 candidate pairs"):
        recall_of_known(3, 3, 7)
