"""Pictures and masks as files: what cannot be read as it is meant is refused."""

import numpy as np
import pytest
from PIL import Image

from mlestruct.exceptions import FileProblem
from mlestruct.segmentation import read_mask, read_picture


@pytest.mark.parametrize(("kind", "name"), [(np.uint16, "a.png"), (np.float32, "a.tiff")])
def test_deep_pictures_are_not_cut_to_white(tmp_path, kind, name):
    Image.fromarray(np.full((3, 4), 1000, dtype=kind)).save(tmp_path / name)
    with pytest.raises(FileProblem, match=rf"{name}: more than 8 bits a pixel"):
        read_picture(tmp_path / name)


def test_labels_are_whole_numbers(tmp_path):
    Image.fromarray(np.ones((3, 4), dtype=np.float32)).save(tmp_path / "a.tiff")
    with pytest.raises(FileProblem, match=r"a.tiff: labels are not whole numbers"):
        read_mask(tmp_path / "a.tiff")
    Image.fromarray(np.full((3, 4), 1000, dtype=np.uint16)).save(tmp_path / "b.png")
    assert (read_mask(tmp_path / "b.png") == "1000").all()


def test_pictures_are_turned_as_they_are_seen(tmp_path):
    values = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    about = Image.Exif()
    about[0x0112] = 3  # turned by 180 degrees
    Image.fromarray(values).save(tmp_path / "a.png", exif=about)
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png"), values[::-1, ::-1])


def test_a_label_has_one_name_in_all_masks_of_a_kind(tmp_path):
    colours = np.zeros((2, 2, 3), dtype=np.uint8)
    Image.fromarray(colours).save(tmp_path / "black.png")
    colours[0, 0] = (255, 0, 16)
    Image.fromarray(colours).save(tmp_path / "red.png")
    Image.fromarray(colours).quantize(4).save(tmp_path / "palette.png")
    assert set(read_mask(tmp_path / "black.png").ravel()) == {"#000000"}
    for name in ("red.png", "palette.png"):
        assert read_mask(tmp_path / name).tolist() == [["#ff0010", "#000000"], ["#000000"] * 2]
    Image.fromarray(colours[..., 0]).save(tmp_path / "grey.png")
    assert read_mask(tmp_path / "grey.png").tolist() == [["255", "0"], ["0", "0"]]
