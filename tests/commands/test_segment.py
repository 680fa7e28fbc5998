"""`mlestruct segment`: from folders of pictures and masks to labelled pictures."""

import json

import numpy as np
import pytest
from PIL import Image

from mlestruct.cli import main
from mlestruct.datasets import make_segmentation


def write(folder, images, masks):
    (folder / "images").mkdir()
    (folder / "masks").mkdir()
    for k, (image, mask) in enumerate(zip(images, masks, strict=True)):
        Image.fromarray((255 * image).astype(np.uint8)).save(folder / "images" / f"{k}.png")
        Image.fromarray((200 * mask).astype(np.uint8)).save(folder / "masks" / f"{k}.png")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, *make_segmentation(3, (20, 26), noise=0.03, random_state=0))
    return tmp_path


SEGMENT = ["segment", "images", "masks", "-m", "model.mls", "--alpha", "10"]


def opened(path):
    return np.asarray(Image.open(path))


def test_folders_in_folder_out(folder, capsys):
    assert main([*SEGMENT, "--test", "images", "masks", "--json"]) == 0
    spoken = capsys.readouterr()
    summary = json.loads(spoken.out)
    assert summary["labels"] == ["0", "200"]
    assert summary["test_accuracy"] > 0.9
    assert "of the pixels in images right" in spoken.err
    assert main(["predict", "model.mls", "images", "-o", "out", "--top", "2"]) == 0
    right = []
    for k in range(3):
        found, truth = opened(f"out/{k}.png"), opened(f"masks/{k}.png")
        chance = opened(f"out/{k}-probability-200.png")
        assert found.shape == truth.shape == chance.shape
        assert set(np.unique(found)) <= {0, 200}
        np.testing.assert_array_equal(opened(f"out/{k}-2.png"), 200 - np.where(
            chance > 127, 200, 0))  # the less probable one of two  # fmt: skip
        right.append((found == truth).mean())
    assert np.mean(right) == pytest.approx(summary["test_accuracy"])


def test_alpha_is_cross_validated_and_large_pictures_are_shrunk(folder, capsys):
    arguments = ["segment", "images", "masks", "-m", "model.mls", "--max-side", "10", "--json"]
    assert main([*arguments, "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["cross_validated_accuracy"] > 0.7
    assert main(["predict", "model.mls", "images/0.png", "-o", "out", "--quiet"]) == 0
    assert opened("out/0.png").shape == (20, 26)


def test_masks_of_colours_come_back_as_colours(folder):
    for k in range(3):
        mask = opened(f"masks/{k}.png")
        coloured = np.where(mask[:, :, None] > 0, [255, 0, 16], [0, 128, 0]).astype(np.uint8)
        Image.fromarray(coloured).save(f"masks/{k}.png")
    assert main([*SEGMENT, "--quiet"]) == 0
    assert main(["predict", "model.mls", "images", "-o", "out", "--quiet"]) == 0
    found = opened("out/1.png").reshape(-1, 3)
    assert set(map(tuple, np.unique(found, axis=0).tolist())) <= {(255, 0, 16), (0, 128, 0)}
    assert (found == opened("masks/1.png").reshape(-1, 3)).all(axis=1).mean() > 0.9


def no_mask(folder):
    (folder / "masks" / "1.png").unlink()


def other_size(folder):
    Image.fromarray(np.zeros((5, 5), dtype=np.uint8)).save(folder / "masks" / "1.png")


def blurred(folder):
    noise = np.random.default_rng(0).integers(0, 255, size=(20, 26)).astype(np.uint8)
    Image.fromarray(noise).save(folder / "masks" / "1.png")


def broken(folder):
    (folder / "images" / "1.png").write_bytes(b"no picture")


def empty(folder):
    for path in (folder / "images").iterdir():
        path.unlink()


def mixed(folder):
    Image.open(folder / "masks" / "1.png").convert("RGB").save(folder / "masks" / "1.png")


def one_label(folder):
    for path in (folder / "masks").iterdir():
        Image.fromarray(np.zeros((20, 26), dtype=np.uint8)).save(path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (no_mask, "images/1.png: there is no mask 1.png in masks"),
        (other_size, "masks/1.png: its size differs from that of the picture, 26 x 20"),
        (blurred, "different values, expected at most 30 labels"),
        (broken, "images/1.png: not a picture that can be read"),
        (empty, "images: has no pictures"),
        (one_label, "images, masks: "),
        (mixed, "masks: masks of greys and of colours"),
    ],
)
def test_malformed_folders(folder, capsys, spoil, message):
    spoil(folder)
    assert main(SEGMENT) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "model.mls").exists()


def test_usage(folder, capsys):
    assert main([*SEGMENT, "--max-side", "1"]) == 2
    assert main(SEGMENT) == 0
    assert main(["predict", "model.mls", "images"]) == 2
    assert "name a folder" in capsys.readouterr().err
    assert main(["predict", "model.mls", "nowhere", "-o", "out"]) == 1


def test_labels_replace_no_picture_and_no_other_labels(folder, capsys):
    assert main([*SEGMENT, "--quiet"]) == 0
    before = (folder / "images" / "1.png").read_bytes()
    assert main(["predict", "model.mls", "images", "-o", "images"]) == 2
    assert "images/0.png, to be written for images/0.png" in capsys.readouterr().err
    assert (folder / "images" / "1.png").read_bytes() == before
    Image.open("images/1.png").save("images/1.bmp")
    assert main(["predict", "model.mls", "images", "-o", "out"]) == 2
    assert "for images/1.png, would replace a file of images/1.bmp" in capsys.readouterr().err
    (folder / "images" / "1.bmp").unlink()
    Image.open("images/1.png").save("images/1-2.png")
    assert main(["predict", "model.mls", "images", "-o", "out", "--top", "2"]) == 2
    assert main(["predict", "model.mls", "images", "-o", "out", "--quiet"]) == 0


def test_a_wrong_test_folder_costs_no_model(folder, capsys):
    assert main([*SEGMENT, "--test", "images", "nowhere"]) == 1
    assert capsys.readouterr().err == "mlestruct: nowhere: there is no such file or folder\n"
    assert (folder / "model.mls").exists()


def test_two_masks_of_one_name_are_refused(folder, capsys):
    Image.open("masks/1.png").save("masks/1.bmp")
    assert main(SEGMENT) == 1
    assert "masks/1.png: masks/1.bmp is a mask of the same name" in capsys.readouterr().err


def test_the_unknown_label_is_one_of_the_masks(folder, capsys):
    assert main([*SEGMENT, "--unknown", "255"]) == 2
    assert "--unknown: no mask has the label '255', but 0, 200" in capsys.readouterr().err
