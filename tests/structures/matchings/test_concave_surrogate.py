"""The concave surrogate of an entropy that is not concave."""

import numpy as np
import pytest
from graph_matchings import (
    complete,
    matching_spaces,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_scores import generators

examples = settings(deadline=None, max_examples=30)


scales = st.sampled_from([0.1, 1.0, 5.0, 20.0, 100.0])


@examples
@given(
    matching_spaces(rho=st.sampled_from([1.0, 0.97, "mixed"])), generators, scales,
    st.sampled_from([0.3, 1.0]),
)  # fmt: skip
def test_the_surrogate_minorises_the_true_one_and_touches_it(space, rng, scale, share):
    structure = space.local
    surrogate = structure.concave_surrogate(share)
    if np.all(space.rhos <= 0.95):
        assert surrogate is None
        return
    assume(surrogate is not None)
    found = structure.marginals(scale * rng.normal(size=space.size))
    varies = space.local_varies()
    offset = surrogate.offset(found)
    here = space.entropy(np.clip(found.tau, 0, 1), varies)
    assert surrogate.entropy(found) == pytest.approx(here, abs=1e-6)
    concave = surrogate.structure
    constant = here - concave.entropy(found.tau) - offset @ found.tau
    for concentration in (0.05, 1.0, 10.0):
        tau = space.random_point(rng, concentration, space.halves)
        minorant = concave.entropy(tau) + offset @ tau + constant
        assert minorant <= space.entropy(tau, varies) + 1e-6
    assert structure.concave_surrogate(share) is not None  # the original is as it was
    assert structure.entropy(found.tau) == pytest.approx(here, abs=1e-6)


def test_concave_entropies_are_their_own_surrogate():
    assert complete(6, rho=0.9).local.concave_surrogate() is None
    assert complete(6, False, rho=0.5).local.concave_surrogate() is None
