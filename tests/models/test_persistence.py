"""Model files: what is saved comes back; what is damaged or hostile is refused by one error."""

import io
import json
import os
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

import mlestruct
from mlestruct import (
    BipartiteMatchingCRF,
    BlockFrankWolfe,
    ChainCRF,
    GraphCRF,
    IsingMRF,
    ModelFileError,
)

RING = np.array([[0, 1], [1, 2], [2, 3], [0, 3]])


def matching_model(**options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 4, 4, 3))
    return BipartiteMatchingCRF(**options).fit(X, [rng.permutation(4) for _ in X]), X


def graph_model(**options):
    rng = np.random.default_rng(0)
    X = [(rng.normal(size=(4, 2)), RING) for _ in range(6)]
    return GraphCRF(fit_intercept=False, **options).fit(
        X, [rng.choice(list("abc"), size=4) for _ in X]
    ), X


def chain_model():
    X = [[{"word": "a", "x": 1.0}, {"word": "b"}], [{"word": "b"}, {"word": "a"}]]
    return ChainCRF().fit(X, [["s", "t"], ["t", "s"]]), X


@pytest.fixture
def file(tmp_path):
    model, _ = graph_model()
    model.save(tmp_path / "model.mls")
    return tmp_path / "model.mls"


def rewritten(path, header=None, coef=None, extra=None, compression=zipfile.ZIP_STORED):
    """The same file with some of its members replaced; `header` changes the header in place."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if header is not None:
        values = json.loads(members["header.json"])
        header(values)
        members["header.json"] = json.dumps(values).encode()
    if coef is not None:
        stream = io.BytesIO()
        np.save(stream, coef)
        members["coef.npy"] = stream.getvalue()
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in {**members, **(extra or {})}.items():
            archive.writestr(name, content)


@pytest.mark.parametrize("make", [matching_model, graph_model, chain_model])
def test_what_is_saved_comes_back(make, tmp_path):
    model, X = make()
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    skipped = {"_state", "_states", "_vocabulary", "_kept"}
    learned = {name for name in vars(model) if name not in skipped}
    assert learned <= set(vars(again))
    for name in learned:
        own, other = getattr(model, name), getattr(again, name)
        assert type(own) is type(other), name
        if name == "history_":
            own, other = (list(history.to_dict().values()) for history in (own, other))
        np.testing.assert_array_equal(own, other, err_msg=name)
    for own, other in zip(model.predict(X), again.predict(X), strict=True):
        np.testing.assert_array_equal(own, other)


def test_parameters_come_back_with_their_types(tmp_path):
    rho, solver = np.full(4, 0.5), BlockFrankWolfe(averaging=True)
    model, _ = graph_model(rho=rho, solver=solver, max_iter=20, tol=0.5)
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    np.testing.assert_array_equal(again.rho, rho)
    assert again.solver == solver
    assert again.get_params()["max_iter"] == 20


def test_files_of_the_first_format_are_read(tmp_path):
    model, _ = matching_model()
    model.save(tmp_path / "model.mls")
    with zipfile.ZipFile(tmp_path / "model.mls") as archive:
        header = json.loads(archive.read("header.json"))
    header["format"] = 1
    del header["mlestruct"]
    del header["parameters"]["tol"]  # as if it had come later: the default
    np.savez_compressed(tmp_path / "old.npz", header=np.array(json.dumps(header)), coef=model.coef_)
    again = mlestruct.load(tmp_path / "old.npz")
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.tol == BipartiteMatchingCRF().tol


def test_every_flipped_bit_is_refused_or_harmless(file):
    """Bits that no checksum covers, such as dates of members, leave the model as it was."""
    whole = file.read_bytes()
    intact = mlestruct.load(file)
    rng = np.random.default_rng(0)
    refused = 0
    for bit in rng.choice(8 * len(whole), size=400, replace=False):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        try:
            model = mlestruct.load(file)
        except ModelFileError:
            refused += 1
        else:
            np.testing.assert_array_equal(model.coef_, intact.coef_)
            assert model.get_params().keys() == intact.get_params().keys()
    assert refused > 300


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_cut_files_are_refused(file, share):
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelFileError, match="damaged"):
        mlestruct.load(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["learned"].update(predict=1), "header says what no model"),
        (lambda h: h["learned"].update(converged_="yes"), "converged_ is 'yes'"),
        (lambda h: h["parameters"].update(__class__=1), "'__class__'"),
        (lambda h: h.update(predict="anything"), "header says what no model"),
        (lambda h: h.update(estimator="load"), "no estimator 'load'"),
        (lambda h: h["layout"].update(classes=["a"]), "15 weights do not fit 1 classes"),
        (lambda h: h["layout"].update(n_node_features=10**12), "counts more than there are"),
        (lambda h: h["history"].update(gap=[1.0]), "history is no table of numbers"),
        (lambda h: h["learned"].update(duality_gap_=-5.0), "duality_gap_ is -5.0"),
        (lambda h: h.pop("history"), ": 'history'$"),
        (lambda h: h.update(format=True), "format True, .* reads formats 1 to"),
        (lambda h: h.update(format=99, mlestruct="7"), "format 99.*'7'.*reads formats 1 to"),
    ],
)
def test_headers_that_no_model_has_are_refused(file, change, message):
    rewritten(file, header=change)
    with pytest.raises(ModelFileError, match=message):
        mlestruct.load(file)


@pytest.mark.parametrize(
    "coef",
    [
        np.full(15, np.nan), np.full(15, np.inf), np.zeros((15, 1)), np.zeros(14),
        np.zeros(15, dtype=np.float32), np.zeros(15, dtype=complex), np.array(["x"] * 15),
    ],
    ids=["nan", "inf", "2-d", "too few", "float32", "complex", "text"],
)  # fmt: skip
def test_weights_that_no_model_has_are_refused(file, coef):
    assert mlestruct.load(file).coef_.shape == (15,)
    rewritten(file, coef=coef)
    with pytest.raises(ModelFileError):
        mlestruct.load(file)


@pytest.mark.parametrize("kind", ["graph", "ising"])
def test_sizes_that_the_weights_do_not_have_take_no_memory(kind, tmp_path):
    path = tmp_path / "model.mls"
    if kind == "graph":
        graph_model()[0].save(path)
        changed = {"classes": [f"c{k}" for k in range(3000)]}
    else:
        IsingMRF().fit(np.random.default_rng(0).integers(2, size=(40, 3))).save(path)
        changed = {"n_variables": 10**7}
    mlestruct.load(path)  # what it imports and compiles is not counted
    rewritten(path, lambda header: header["layout"].update(changed))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=r"weights do not fit|more than there are weights"):
            mlestruct.load(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_pipes_and_links_to_themselves_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is a pipe"):
        mlestruct.load(tmp_path / "pipe")
    os.symlink(tmp_path / "loop.mls", tmp_path / "loop.mls")
    with pytest.raises(OSError, match=r"cannot write .*loop\.mls"):
        graph_model()[0].save(tmp_path / "loop.mls")


def test_objects_are_not_unpickled(file):
    rewritten(file, coef=np.zeros(15))
    stream = io.BytesIO()
    np.save(stream, np.array([print], dtype=object), allow_pickle=True)
    rewritten(file, extra={"array0.npy": stream.getvalue()})
    with pytest.raises(ModelFileError):
        mlestruct.load(file)


def test_files_cannot_grow_when_they_are_read(file):
    rewritten(file, coef=np.zeros(10**6), compression=zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 100_000
    with pytest.raises(ModelFileError, match="damaged"):
        mlestruct.load(file)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")
def test_saving_keeps_permissions_and_follows_links(tmp_path):
    model, _ = matching_model()
    before = os.umask(0o027)
    try:
        model.save(tmp_path / "new.mls")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.mls").stat().st_mode) == 0o640
    os.chmod(tmp_path / "new.mls", 0o600)
    (tmp_path / "link.mls").symlink_to(tmp_path / "new.mls")
    model.save(tmp_path / "link.mls")
    assert (tmp_path / "link.mls").is_symlink()
    assert stat.S_IMODE((tmp_path / "new.mls").stat().st_mode) == 0o600
    assert mlestruct.load(tmp_path / "new.mls").alpha == model.alpha


@pytest.mark.skipif(sys.platform == "win32", reason="devices of POSIX")
@pytest.mark.parametrize("place", ["/dev/null", "."])
def test_saving_to_what_is_no_file_is_refused(place):
    with pytest.raises(OSError, match="not a regular file"):
        matching_model()[0].save(place)


SAVER = """
import sys, numpy as np, mlestruct
model = mlestruct.load(sys.argv[1])
print("ready", flush=True)
while True:
    model.save(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_save_leaves_a_whole_file(file):
    for pause in (0.0, 0.003, 0.01, 0.02):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(file)], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        mlestruct.load(file)
    left = [path for path in file.parent.iterdir() if path != file]
    assert len(left) <= 1  # a name exists only between two system calls


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there are no such devices")
@pytest.mark.parametrize("device", ["zero", "null", "full"])
def test_devices_are_not_read(device):
    with pytest.raises(ModelFileError, match="a device, expected a file"):
        mlestruct.load(f"/dev/{device}")  # the first never ends: it took all memory


def test_sets_of_forbidden_transitions_are_saved(tmp_path):
    X, Y = [np.eye(3)] * 2, [[0, 1, 2], [2, 1, 0]]
    model = ChainCRF(forbidden_transitions={(0, 0), (2, 2)}).fit(X, Y)
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    assert set(again.forbidden_transitions) == {(0, 0), (2, 2)}
    for own, other in zip(model.predict_marginals(X), again.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(own, other)
