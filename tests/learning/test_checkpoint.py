"""Checkpoints: resumed fits make the steps of unbroken ones; files of other fits are refused."""

import json
import os
import signal
import zipfile

import numpy as np
import pytest

from mlestruct import (
    LBFGS,
    BipartiteMatchingCRF,
    BlockFrankWolfe,
    ChainCRF,
    Checkpoint,
    CheckpointError,
    FrankWolfe,
    GraphCRF,
    GridCRF,
    IsingMRF,
    MatchingCRF,
    MultiLabelCRF,
    StructuredCRF,
)
from mlestruct.baselines import ExactLikelihood, StructuredPerceptron, StructuredSVM
from mlestruct.learning.checkpoint import FORMAT

RNG = np.random.default_rng(0)
PAIRS = [RNG.normal(size=(7, 7, 3)) for _ in range(6)]
MATCHED = [RNG.permutation(7) for _ in range(6)]
HIDDEN = np.where(np.arange(7) < 3, np.nan, MATCHED[5])
GROUPS = [pairs[:6, :6] + pairs[:6, :6].transpose(1, 0, 2) for pairs in PAIRS]
PARTNERS = [np.array([1, 0, 3, 2, 5, 4])] * 6
NODES = [RNG.normal(size=(9, 2)) for _ in range(6)]
STATES = [RNG.integers(0, 3, 9) for _ in range(6)]
RING = np.array([[k, (k + 1) % 9] for k in range(9)])
GRAPHS = [(x, RING, np.ones((9, 1))) for x in NODES]
IMAGES, COLOURS = [x.reshape(3, 3, 2) for x in NODES], [y.reshape(3, 3) % 2 for y in STATES]


def signs(scores):
    return (scores > 0).astype(int)


TABLE, TICKS = RNG.normal(size=(40, 3)), RNG.random((40, 4)) < 0.5
MARKED = [(x[:, 0] > 0.5).astype(int) for x in NODES]
BY_BLOCKS, AVERAGED = BlockFrankWolfe(), BlockFrankWolfe(averaging=True)
AT_ONCE = FrankWolfe(averaging=True)

CASES = {
    "bcfw": (BipartiteMatchingCRF(solver=BY_BLOCKS), PAIRS, MATCHED),
    "bcfw, averaged": (BipartiteMatchingCRF(solver=AVERAGED), PAIRS, MATCHED),
    "bcfw of graphs": (GraphCRF(solver=BY_BLOCKS), GRAPHS, [y % 2 for y in STATES]),
    "bcfw of own decoders": (StructuredCRF(decode=signs, solver=BY_BLOCKS), NODES, MARKED),
    "own decoders": (StructuredCRF(decode=signs), NODES, MARKED),
    "fw": (BipartiteMatchingCRF(solver=FrankWolfe()), PAIRS, MATCHED),
    "fw, averaged": (ChainCRF(solver=AT_ONCE), NODES, STATES),
    "bipartite": (BipartiteMatchingCRF(), PAIRS, MATCHED),
    "bipartite, rho 1": (BipartiteMatchingCRF(rho=1.0, alpha=1e-3), PAIRS, MATCHED),
    "partners known in part": (BipartiteMatchingCRF(), PAIRS, [*MATCHED[:-1], HIDDEN]),
    "exact likelihood": (BipartiteMatchingCRF(solver=ExactLikelihood()), PAIRS, MATCHED),
    "group": (MatchingCRF(), GROUPS, PARTNERS),
    "group, exact polytope": (MatchingCRF(polytope="exact"), GROUPS, PARTNERS),
    "chain, short memory": (ChainCRF(solver=LBFGS(memory=3)), NODES, STATES),
    "chain, l1": (ChainCRF(l1_ratio=0.3), NODES, STATES),
    "grid": (GridCRF(), IMAGES, COLOURS),
    "graph": (GraphCRF(), GRAPHS, STATES),
    "multi-label": (MultiLabelCRF(), TABLE, TICKS),
    "Ising": (IsingMRF(graph="full"), TICKS, None),
}  # fmt: skip


class Killed(BaseException):
    """As if the process had ended here."""


def killed_after(writes, monkeypatch):
    """Let the process end after some checkpoints, in the middle of the next one."""
    left = [writes]
    keep = Checkpoint.keep

    def counted(self, make):
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        keep(self, make)

    monkeypatch.setattr(Checkpoint, "keep", counted)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("writes", [1, 4])
@pytest.mark.parametrize("name", CASES)
def test_a_resumed_fit_makes_the_steps_of_an_unbroken_one(name, writes, tmp_path, monkeypatch):
    model, X, Y = CASES[name]
    model.set_params(tol=1e-7, max_iter=30, random_state=0)
    whole = model.fit(X, Y)
    expected = whole.history_.to_dict(), whole.coef_.copy(), whole.duality_gap_
    assert len(whole.history_) > 1
    every = Checkpoint(tmp_path, every=0)
    with monkeypatch.context() as patch:
        killed_after(writes, patch)
        try:
            model.fit(X, Y, checkpoint=every)
        except Killed:
            assert every.path.exists()
    resumed = model.fit(X, Y, checkpoint=tmp_path)
    history = resumed.history_.to_dict()
    for column in ("iteration", "oracle_calls", "objective", "objective_bound", "gap"):
        assert history[column] == expected[0][column]  # to the last bit
    np.testing.assert_array_equal(resumed.coef_, expected[1])
    assert resumed.duality_gap_ == expected[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fit_whose_process_is_killed_in_the_middle_of_a_write_continues(tmp_path):
    model, X, Y = CASES["chain, short memory"]
    model.set_params(tol=1e-7, max_iter=30)
    whole = model.fit(X, Y)
    expected = whole.history_.to_dict()["objective_bound"], whole.coef_.copy()
    child = os.fork()
    if child == 0:
        rename, written = os.replace, []

        def third_kills(source, target):
            if str(target).endswith("checkpoint.mlc"):
                written.append(target)
                if len(written) == 3:
                    os.kill(os.getpid(), signal.SIGKILL)
            rename(source, target)

        os.replace = third_kills
        try:
            model.fit(X, Y, checkpoint=Checkpoint(tmp_path, every=0))
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2  # the second checkpoint, and a part of the third
    resumed = model.fit(X, Y, checkpoint=Checkpoint(tmp_path, every=0))
    assert resumed.history_.to_dict()["objective_bound"] == expected[0]  # to the last bit
    np.testing.assert_array_equal(resumed.coef_, expected[1])
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.mlc"]


def test_calls_of_a_resumed_fit_are_those_of_all_runs(tmp_path, monkeypatch):
    calls = []

    def decode(scores):
        calls.append(1)
        return signs(scores)

    model = StructuredCRF(decode=decode, tol=1e-2, solver=BlockFrankWolfe(), random_state=0)
    lost = 0
    for writes in (2, 3):
        with monkeypatch.context() as patch:
            killed_after(writes, patch)
            counts = counted_writes(calls, patch)
            with pytest.raises(Killed):
                model.fit(NODES, MARKED, checkpoint=Checkpoint(tmp_path, every=0))
        lost += len(calls) - counts[-1]  # no file has these
    model.fit(NODES, MARKED, checkpoint=Checkpoint(tmp_path, every=0))
    assert model.converged_
    assert model.n_oracle_calls_ == len(calls) - lost


def counted_writes(calls, monkeypatch):
    """The number of calls at each checkpoint that is written."""
    counts, keep = [], Checkpoint.keep

    def counted(self, make):
        keep(self, make)
        counts.append(len(calls))

    monkeypatch.setattr(Checkpoint, "keep", counted)
    return counts


def test_another_fit_refuses_the_checkpoint(tmp_path):
    model = BipartiteMatchingCRF(solver=BlockFrankWolfe(), random_state=0, tol=1e-9, max_iter=3)
    every = Checkpoint(tmp_path, every=0)
    with pytest.warns(match="stopped after"):
        model.fit(PAIRS, MATCHED, checkpoint=every)
    for change in ({"alpha": 2.0}, {"rho": 0.6}, {"solver": FrankWolfe()}, {"tol": 1e-3}):
        other = BipartiteMatchingCRF(**{**model.get_params(), **change})
        with pytest.raises(CheckpointError, match=f"{next(iter(change))} is .* there and"):
            other.fit(PAIRS, MATCHED, checkpoint=tmp_path)
    changed = [PAIRS[0] + 1e-9, *PAIRS[1:]]
    twice = [1, 1, 1, 1, 1, 2]
    others = (changed, MATCHED, None), (PAIRS, MATCHED[::-1], None), (PAIRS, MATCHED, twice)
    for X, Y, weights in others:
        with pytest.raises(CheckpointError, match="belongs to another fit: data"):
            model.fit(X, Y, weights, checkpoint=tmp_path)


def test_damaged_files_are_refused(tmp_path):
    model = ChainCRF(tol=1e-9)
    every = Checkpoint(tmp_path, every=0)
    model.fit(NODES, STATES, checkpoint=every)
    content = every.path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        every.path.write_bytes(bytes(damaged))
        try:
            model.fit(NODES, STATES, checkpoint=tmp_path)
        except CheckpointError:
            continue  # else the bit is one that nobody reads, as that of a date
        with zipfile.ZipFile(every.path) as archive:
            assert archive.testzip() is None
    every.path.write_bytes(b"not a checkpoint")
    with pytest.raises(CheckpointError, match="remove it to start anew"):
        model.fit(NODES, STATES, checkpoint=tmp_path)


def test_other_kinds_of_objects_are_not_made(tmp_path):
    every = Checkpoint(tmp_path)
    for state in (
        {"kind": "pathlib:Path", "fields": {}},
        {"kind": "mlestruct.learning.checkpoint:Checkpoint", "fields": {}},
        {"kind": "mlestruct.structures.contract:Vertex", "fields": {"x": 1}},
        {"z": 1},
    ):
        with zipfile.ZipFile(every.path, "w") as archive:
            header = {"format": FORMAT, "settings": {}, "setup_calls": 0, "state": state}
            archive.writestr("header.json", json.dumps(header))
        with pytest.raises(CheckpointError, match="damaged"):
            every.open({})


def test_a_full_disk_is_reported_and_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    model = ChainCRF(tol=1e-9, max_iter=5)
    every = Checkpoint(tmp_path, every=0)
    with pytest.warns(match="stopped after"):
        model.fit(NODES, STATES, checkpoint=every)
    before = every.path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        model.set_params(max_iter=9).fit(NODES, STATES, checkpoint=every)
    assert every.path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.mlc"]


@pytest.mark.parametrize("solver", [StructuredPerceptron(), StructuredSVM()])
def test_solvers_without_checkpoints_are_refused(solver, tmp_path):
    with pytest.raises(CheckpointError, match=f"{type(solver).__name__} does not write any"):
        BipartiteMatchingCRF(solver=solver).fit(PAIRS, MATCHED, checkpoint=tmp_path)


@pytest.mark.parametrize("every", [-1, np.nan, True, "x", None])
def test_intervals_are_seconds(every, tmp_path):
    with pytest.raises(ValueError, match="`every` must be a number of seconds"):
        Checkpoint(tmp_path, every=every)


def test_what_is_no_file_is_refused_at_once(tmp_path):
    every = Checkpoint(tmp_path, every=0)
    made = [every.path.mkdir, lambda: every.path.symlink_to("/dev/zero")]
    if hasattr(os, "mkfifo"):  # reading one without a writer never ends
        made.append(lambda: os.mkfifo(every.path))
    for make in made:
        make()
        with pytest.raises(CheckpointError, match=r"checkpoint\.mlc is not a file"):
            every.open({})
        every.path.rmdir() if every.path.is_dir() else every.path.unlink()
