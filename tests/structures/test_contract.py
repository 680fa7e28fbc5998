"""Capabilities that a structure declares: by its class, by the object, or not at all."""

import own_decoders as own
import pytest

from mlestruct import MissingCapability
from mlestruct.structures import DecoderSpace, Sequences


def test_capabilities_of_a_class_of_an_object_and_of_none():
    assert Sequences([3], 2).offers("marginals")
    assert not Sequences([3], 2).offers("price_bound")
    space = DecoderSpace(own.top_three, 8)
    assert not space.offers("price_bound")
    space.price_bound = lambda *arguments: None
    assert space.offers("price_bound")


def test_the_error_names_the_capability_and_who_needs_it():
    with pytest.raises(
        MissingCapability, match=r"method='x' needs price_bound\(\), which Sequences"
    ):
        Sequences([3], 2).require("price_bound", "method='x'")
