"""`mlestruct segment images masks`: learn labels of pixels; `mlestruct predict` applies them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ..segmentation import (
    ImageSegmenter,
    read_mask,
    read_picture,
    write_labels,
    write_probability,
)
from ..segmentation.pictures import picture_size
from . import common
from .arguments import UsageProblem
from .files import STANDARD, FileProblem, check_files, naming

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if options.max_side < 2:
        raise UsageProblem(f"--max-side: expected at least 2, got {options.max_side}")
    check_files([], m=options.model)
    segmenter = ImageSegmenter(
        max_side=options.max_side, neighbours=options.neighbours, unknown=options.unknown,
        alpha=common.read_alpha(options.alpha), random_state=options.seed,
        verbose=int(common.shows_progress(options)),
    )  # fmt: skip
    with naming(options.images, options.masks):
        images, masks = _labelled(options.images, options.masks, options.max_side)
        names = {str(name) for mask in masks for name in np.unique(mask)}
        if len({name.startswith("#") for name in names}) > 1:
            raise FileProblem(f"{options.masks}: masks of greys and of colours; save them alike")
        if options.unknown is not None and options.unknown not in names:
            known = ", ".join(sorted(names))
            raise UsageProblem(f"--unknown: no mask has the label {options.unknown!r}, but {known}")
        segmenter.fit(images, masks)
    segmenter.save(options.model)
    summary: dict[str, Any] = {
        "pictures": len(images),
        "labels": [str(label) for label in segmenter.classes_],
        "test_accuracy": _accuracy(segmenter, options) if options.test else None,
        **common.fit_summary(segmenter),
    }
    learned = f"{len(segmenter.classes_)} labels from {len(images)} pictures"
    test = options.test and options.test[0]
    words = common.label_words(summary, ("pixels", "pictures"), learned, test)
    common.answer(options, summary, words, [options.model])
    return common.exit_status(segmenter, options)


def _labelled(images: str, masks: str, max_side: int) -> tuple[list[Any], list[Any]]:
    """Pictures and their masks, by the names of the files."""
    by_name: dict[str, Path] = {}
    for path in pictures([masks]):
        if by_name.setdefault(path.stem, path) != path:
            raise FileProblem(f"{path}: {by_name[path.stem]} is a mask of the same name")
    found, labels = [], []
    for path in pictures([images]):
        if path.stem not in by_name:
            raise FileProblem(f"{path}: there is no mask {path.stem}.png in {masks}")
        if picture_size(path) != picture_size(by_name[path.stem]):
            height, width = picture_size(path)
            raise FileProblem(
                f"{by_name[path.stem]}: its size differs from that of the picture, "
                f"{width} x {height}"
            )
        found.append(read_picture(path, max_side))
        labels.append(read_mask(by_name[path.stem], found[-1].shape[:2]))
    return found, labels


def pictures(places: list[str]) -> list[Path]:
    """The pictures in folders, by name, and those named themselves."""
    found = []
    for place in map(Path, places):
        if place.is_dir():
            inside = sorted(p for p in place.iterdir() if p.suffix.lower() in PICTURES)
            if not inside:
                raise FileProblem(f"{place}: has no pictures ({', '.join(PICTURES)})")
            found += inside
        elif place.is_file():
            found.append(place)
        else:
            raise FileProblem(f"{place}: there is no such file or folder")
    return found


def _accuracy(segmenter: ImageSegmenter, options: argparse.Namespace) -> float:
    """The share of labelled pixels of the test folders whose label is right."""
    images, masks = options.test
    found, truth = _labelled(images, masks, options.max_side)
    right = [
        (one == other)[other != options.unknown].ravel()
        for one, other in zip(segmenter.predict(found), truth, strict=True)
    ]
    return float(np.concatenate(right).mean())


def label_pictures(segmenter: ImageSegmenter, places: list[str], folder: str, top: int) -> None:
    """Write a mask and probabilities of each picture into a folder.

    NAME.png has the most probable labels, NAME-2.png the second ones and so on up to `top`, and
    NAME-probability-LABEL.png the probability of a label, of the second one only if there are two.
    """
    if folder == STANDARD:
        raise UsageProblem("-o: name a folder for the masks")
    paths, names = pictures(places), [str(c).removeprefix("#") for c in segmenter.classes_]
    shown = range(0 if len(names) > 2 else 1, len(names))
    further = [f"-{k + 1}" for k in range(1, min(top, len(names)))]
    _check_targets(paths, folder, ["", *further, *(f"-probability-{names[k]}" for k in shown)])
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path in paths:
        image, size = read_picture(path, segmenter.max_side), picture_size(path)
        (best,), (table,) = segmenter.predict([image]), segmenter.predict_marginals([image])
        target = Path(folder, path.stem)
        write_labels(f"{target}.png", best, size)
        order = np.argsort(-table, axis=2, kind="stable")
        for k, end in enumerate(further, start=1):
            write_labels(f"{target}{end}.png", segmenter.classes_[order[:, :, k]], size)
        for k in shown:
            write_probability(f"{target}-probability-{names[k]}.png", table[:, :, k], size)


def _check_targets(paths: list[Path], folder: str, endings: list[str]) -> None:
    """Raise where what is written for a picture would replace a picture or what belongs to one."""
    taken = {path.resolve(): path for path in paths}
    for path in paths:
        for target in (Path(folder, f"{path.stem}{end}.png") for end in endings):
            if other := taken.get(target.resolve()):
                raise UsageProblem(
                    f"-o: {target}, to be written for {path}, would replace a file of {other}"
                )
            taken[target.resolve()] = path
