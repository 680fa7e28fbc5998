"""The examples that `--help` shows work."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from mlestruct.cli import main
from mlestruct.commands.arguments import COMMANDS
from mlestruct.datasets import make_people, make_segmentation


def examples():
    """Command lines, in an order in which models are written before they are used."""
    names = ("link", "match", "segment", "tag", "predict", "report")
    by_name = {command.name: command for command in COMMANDS}
    for name in names:
        for line in by_name[name].example.splitlines():
            if line.startswith("  mlestruct "):
                yield line.split()[1:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("examples")
    left, right, links = make_people(50, random_state=0)
    left.to_csv(place / "left.csv")
    right.to_csv(place / "right.csv")
    links.iloc[:30].to_csv(place / "known.csv", index=False)
    rng = np.random.default_rng(0)
    ids = [f"p{k}" for k in range(36)]
    people = pd.DataFrame({"id": ids, "noise": rng.integers(0, 3, 36), "year": np.arange(36) // 12})
    people.to_csv(place / "people.csv", index=False)
    pairs = pd.DataFrame(np.array(ids)[:24].reshape(-1, 2), columns=["id_a", "id_b"])
    pairs.to_csv(place / "pairs.csv", index=False)
    topics = np.array(["text", "image"])
    papers = pd.DataFrame({"id": [f"a{k}" for k in range(8)], "topic": topics[np.arange(8) % 2]})
    papers.to_csv(place / "papers.csv", index=False)
    reviewers = pd.DataFrame({"id": [f"r{k}" for k in range(6)], "topic": topics[np.arange(6) % 2]})
    reviewers.assign(load=5).to_csv(place / "reviewers.csv", index=False)
    reviews = [(f"a{k}", f"r{(k + s) % 6}") for k in range(6) for s in (0, 2, 4)]
    pd.DataFrame(reviews, columns=["paper", "reviewer"]).to_csv(place / "reviews.csv", index=False)
    for name in ("images", "masks"):
        (place / name).mkdir()
    for k, (image, mask) in enumerate(
        zip(*make_segmentation(2, (12, 14), random_state=0), strict=True)
    ):
        Image.fromarray((255 * image).astype(np.uint8)).save(place / "images" / f"{k}.png")
        Image.fromarray((255 * mask).astype(np.uint8)).save(place / "masks" / f"{k}.png")
    (place / "train.tsv").write_text("the\tDET\ncat\tNOUN\n\na\tDET\ndog\tNOUN\n\n" * 4)
    return place


def test_examples_work_in_order(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    lines = list(examples())
    assert len(lines) == 17
    for arguments in lines:
        assert main([*arguments, "--quiet"]) == 0, (arguments, capsys.readouterr().err)
        assert capsys.readouterr().err == ""
    for name in ("links.csv", "matches.csv", "labelled/0.png", "tagged.tsv", "report.html"):
        assert (folder / name).stat().st_size > 50


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_help_shows_an_example(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"example:\n  mlestruct {command} " in capsys.readouterr().out
