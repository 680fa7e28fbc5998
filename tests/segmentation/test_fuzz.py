"""Any pictures and masks give labels of pixels, any file a picture, or an error that names it."""

import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
from changed_arrays import answer, anything_like, fuzzed, options_from
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("PIL")
from PIL import Image

from mlestruct.segmentation import (
    ImageSegmenter,
    read_mask,
    read_picture,
    write_labels,
    write_probability,
)  # fmt: skip

FOLDER = Path(tempfile.mkdtemp())
RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (9, 10, 3)).astype(np.uint8)
MASK = np.where(RNG.random((9, 10)) < 0.5, "0", "255").astype(object)
OPTIONS = {
    "hog": [True, False, "x"],
    "neighbours": [4, 8, 3, "x", None],
    "unknown": [None, "0", 3],
    "max_side": [None, 5, 0, -1, "x"],
    "alpha": [1.0, -1.0, "x", None],
    "tol": [0.1, 0.0, "x"],
}
NAMES = ("images", "masks", "image", "X", "Y", "path", *OPTIONS)
MODEL = ImageSegmenter(alpha=1.0, tol=0.1).fit([PICTURE] * 2, [MASK, MASK[::-1]])


@fuzzed
@given(picture=anything_like(PICTURE), mask=anything_like(MASK), options=options_from(OPTIONS),
       which=st.integers(0, 2))  # fmt: skip
def test_pictures(picture, mask, options, which):
    images = [PICTURE, picture if which == 0 else PICTURE]
    masks = [MASK, mask if which == 1 else MASK[::-1]]
    model = ImageSegmenter(**{"alpha": 1.0, "tol": 0.1, **(options if which == 2 else {})})
    found = answer(model.fit, images, masks, names=NAMES)
    assert found is None or np.isfinite(found.coef_).all()
    if which == 0:
        labels = answer(MODEL.predict, [picture], names=NAMES)
        assert labels is None or labels[0].shape == np.shape(picture)[:2]


@fuzzed
@given(data=st.data())
def test_files(data):
    path = FOLDER / "a.tif"
    modes = ["L", "RGB", "RGBA", "LA", "1", "P", "I;16", "F", "CMYK"]
    mode = data.draw(st.sampled_from(modes), "mode")
    array = PICTURE if mode in ("RGB", "RGBA", "CMYK") else PICTURE[..., 0]
    buffer = io.BytesIO()
    picture = Image.fromarray(array)
    picture = Image.fromarray(array.astype(np.uint16)) if mode == "I;16" else picture.convert(mode)
    picture.save(buffer, "TIFF")
    content = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    found = answer(read_picture, path, data.draw(st.sampled_from([None, 5, 1])))
    assert found is None or (found.ndim, found.shape[2]) == (3, 3)
    found = answer(read_mask, path, data.draw(st.sampled_from([None, (4, 5)])))
    assert found is None or found.ndim == 2


@fuzzed
@given(labels=anything_like(MASK), chance=anything_like(RNG.random((9, 10))))
def test_writing(labels, chance):
    path = FOLDER / "a.png"
    path.unlink(missing_ok=True)
    with np.errstate(all="ignore"):
        if answer(write_labels, path, labels, (9, 10)) is None and path.exists():
            assert read_mask(path).shape == (9, 10)
        answer(write_probability, path, chance, (9, 10))


@pytest.mark.parametrize("side", [-1, 0, 2.5, "x", True])
def test_the_longest_side_is_a_number_of_pixels(side):
    with pytest.raises(ValueError, match="max_side must be a positive integer"):
        ImageSegmenter(max_side=side, alpha=1.0).fit([PICTURE] * 2, [MASK, MASK[::-1]])
