"""`mlestruct ensembles FILE`: neuronal ensembles of a recording, with tables and pictures."""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

from ..datasets import SpikeData, read_spikes
from ..models import Ensembles, IsingMRF, find_ensembles, select_ising
from ..plotting import plot_couplings, plot_raster, plot_stimulus_roc
from .arguments import UsageProblem
from .common import exit_status, refuse
from .files import FileProblem, naming


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    started = time.perf_counter()
    _check(options)
    try:
        data = read_spikes(options.file)
    except ValueError as error:
        raise FileProblem(str(error)) from None
    if not data.stimuli.shape[1]:
        raise FileProblem(f"{options.file}: there are no stimuli; ensembles are found for each one")
    folder = Path(options.out or f"{data.name}-ensembles")
    folder.mkdir(parents=True, exist_ok=True)
    _say(
        options,
        f"{data.name}: {data.spikes.shape[0]} frames of {data.spikes.shape[1]} neurons, "
        f"{data.stimuli.shape[1]} stimuli",
    )
    with naming(options.file):
        settings = _settings(options, data, folder)
        found = find_ensembles(
            data.spikes, data.stimuli, settings, n_shuffles=options.shuffles, fdr=options.fdr,
            n_jobs=options.jobs, random_state=options.seed,
        )  # fmt: skip
    _write(found, data, folder)
    _say(options, found.report())
    _say(
        options,
        f"{folder}: ensembles.csv, model.mls, pictures; {time.perf_counter() - started:.1f} s",
    )
    if options.json:
        print(json.dumps(summary(found)))
    return exit_status(found.model, options)


def _check(options: argparse.Namespace) -> None:
    for name, value, fits in (
        ("--fdr", options.fdr, 0.0 < options.fdr < 1.0),
        ("--alpha", options.alpha, 0.0 < options.alpha < float("inf")),
        ("--density", options.density, options.density is None or 0.0 <= options.density <= 1.0),
        ("--shuffles", options.shuffles, options.shuffles >= 1),
        ("--time-span", options.time_span, options.time_span >= 1),
        ("--jobs", options.jobs, options.jobs is None or options.jobs != 0),
    ):
        if not fits:
            raise UsageProblem(f"{name}: {value} is out of range")
    if options.select:
        refuse(options, ("alpha", "density"), "--select chooses it")


def summary(found: Ensembles) -> dict[str, Any]:
    """Plain types: parameters, certificate and members."""
    model = found.model
    return {
        "density": model.density,
        "alpha": model.alpha,
        "time_span": model.time_span,
        "couplings": len(model.edges_),
        "exact": model.is_exact_,
        "duality_gap": model.duality_gap_,
        "false_discovery_rate": found.fdr,
        "shuffles": found.n_shuffles,
        "ensembles": [found.neurons(s).tolist() for s in range(found.auc.shape[0])],
    }


def _settings(options: argparse.Namespace, data: SpikeData, folder: Path) -> IsingMRF:
    """The model to fit: as the options say, or the best of a grid."""
    if not options.select:
        return IsingMRF(alpha=options.alpha, density=options.density, time_span=options.time_span)
    chosen = select_ising(
        data.spikes, data.stimuli, time_span=sorted({1, options.time_span}), n_jobs=options.jobs,
        resume=folder / "selection.jsonl", refit=False,
    )  # fmt: skip
    _say(options, f"chosen of {len(chosen.means())} models: {chosen.best_params}")
    return IsingMRF(l1=0.5, **chosen.best_params)


def _write(found: Ensembles, data: SpikeData, folder: Path) -> None:
    rows = found.rows()
    with (folder / "ensembles.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    model, n = found.model, data.spikes.shape[1]
    model.save(folder / "model.mls")
    inside = (model.edges_ < n).all(axis=1)
    groups = [found.neurons(s) for s in range(found.auc.shape[0])]
    plot_couplings(
        model.edges_[inside], model.couplings_[inside], data.coords, groups, n,
        path=folder / "couplings.png",
    )  # fmt: skip
    first = model.time_span - 1
    guessed, shown = model.predict_stimuli(data.spikes), data.stimuli[first:]
    plot_raster(data.spikes[first:], shown, guessed, slice(0, 400), path=folder / "raster.png")
    plot_stimulus_roc(guessed, shown, path=folder / "roc.png")


def _say(options: argparse.Namespace, text: str) -> None:
    if not options.quiet:
        print(text, file=sys.stderr)
