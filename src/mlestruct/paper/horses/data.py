"""The pictures: real ones where they are at hand, else generated ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._lazy import cached_property
from ...datasets import data_folder, load_horses, make_segmentation
from ...features import edge_features, node_features
from ..parts import Setting

Image = NDArray[np.float32]
Mask = NDArray[np.int64]

REAL = "weizmann_horses"
GENERATED = "generated"
TINY = (20, 24)  # pictures on which code is compiled


def why_not_real() -> str:
    """Why the real pictures cannot be used; empty if they can."""
    missing = [name for name in ("PIL", "skimage") if find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed (pip install 'mlestruct[images]')"
    try:
        found = (data_folder() / REAL / "rgb").is_dir()
    except FileNotFoundError:
        return "MLESTRUCT_DATA does not name a folder with data"
    return "" if found else f"the folder of MLESTRUCT_DATA has no {REAL}"


@dataclass(frozen=True)
class Data:
    """Which pictures train and which test; features are made when they are needed."""

    setting: Setting

    @property
    def train(self) -> range:
        return range(self.setting["train"])

    @property
    def test(self) -> range:
        return range(self.setting["train"], self.setting["train"] + self.setting["test"])

    def pictures(self, indices: Sequence[int]) -> tuple[list[Image], list[Mask]]:
        """Photographs and the pixels of the figure on them."""
        setting = self.setting
        if setting["data"] == REAL:
            horses = load_horses(max_side=setting["max_side"], indices=indices)
            return horses.images, horses.masks
        images, masks = self._generated
        return [images[k] for k in indices], [masks[k] for k in indices]

    @cached_property
    def _generated(self) -> tuple[list[Image], list[Mask]]:
        n_images = self.setting["train"] + self.setting["test"]
        shape = self.setting["shape"]
        return make_segmentation(n_images, shape, random_state=self.setting["seed"])

    def sample(self, image: Image) -> tuple[Any, Any]:
        """What a `GridCRF` is given of a picture."""
        return node_features(image, hog=self.setting["hog"]), edge_features(image)

    def training(self) -> tuple[list[Any], list[Mask]]:
        images, masks = self.pictures(self.train)
        return [self.sample(image) for image in images], masks

    def tiny(self) -> tuple[list[Any], list[Mask]]:
        """Two tiny pictures with the features of the others."""
        images, masks = make_segmentation(2, TINY, random_state=0)
        return [self.sample(image) for image in images], masks
