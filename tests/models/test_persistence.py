"""Model files: what is saved comes back; what is damaged or hostile is refused by one error."""

import copy
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
import own_decoders as own
import pytest
from sklearn.base import clone

import mlestruct
from mlestruct import LBFGS, BlockFrankWolfe, ModelFileError, StructuredCRF

RING = np.array([[0, 1], [1, 2], [2, 3], [0, 3]])


def matching_model(**options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 4, 4, 3))
    return mlestruct.BipartiteMatchingCRF(**options).fit(X, [rng.permutation(4) for _ in X]), X


def graph_model(**options):
    rng = np.random.default_rng(0)
    X = [(rng.normal(size=(4, 2)), RING) for _ in range(6)]
    return mlestruct.GraphCRF(fit_intercept=False, **options).fit(
        X, [rng.choice(list("abc"), size=4) for _ in X]
    ), X


def chain_model():
    X = [[{"word": "a", "x": 1.0}, {"word": "b"}], [{"word": "b"}, {"word": "a"}]]
    return mlestruct.ChainCRF().fit(X, [["s", "t"], ["t", "s"]]), X


def ising_model():
    return mlestruct.IsingMRF().fit(np.random.default_rng(0).integers(2, size=(40, 3))), None


def subset_model(**options):
    X, Y = own.subset_samples(np.random.default_rng(0))
    return StructuredCRF(structure=own.three_of_eight, tol=0.1, **options).fit(X, Y), X


def load(path):
    return mlestruct.load(path, trusted=["own_decoders"])


@pytest.fixture(scope="module")
def model():
    return subset_model(solver=BlockFrankWolfe(averaging=True))[0]


@pytest.fixture
def file(model, tmp_path):
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


@pytest.mark.parametrize("make", [matching_model, graph_model, chain_model, subset_model])
def test_what_is_saved_comes_back(make, tmp_path):
    model, X = make()
    model.save(tmp_path / "model.mls")
    again = load(tmp_path / "model.mls")
    for name in [name for name in vars(model) if not name.startswith("_")]:
        own, other = getattr(model, name), getattr(again, name)
        assert type(own) is type(other), name
        if name == "history_":
            own, other = (list(history.to_dict().values()) for history in (own, other))
        np.testing.assert_array_equal(own, other, err_msg=name)
    for one, other in zip(model.predict(X), again.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)


def test_parameters_come_back_with_their_types(tmp_path):
    rho, solver = np.full(4, 0.5), LBFGS(max_time=60.0)
    model, _ = graph_model(rho=rho, solver=solver, max_iter=20, tol=0.5)
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    np.testing.assert_array_equal(again.rho, rho)
    assert again.solver == solver
    assert again.get_params()["max_iter"] == 20


def test_solvers_are_saved_without_what_belongs_to_one_run(model, tmp_path):
    options = {"averaging": True, "max_iter": 7}
    solver = BlockFrankWolfe(**options, callback=print, random_state=1, verbose=0)
    clone(model).set_params(solver=solver).fit(*own.subset_samples(np.random.default_rng(0))).save(
        tmp_path / "model.mls"
    )
    assert load(tmp_path / "model.mls").solver == BlockFrankWolfe(**options)


@pytest.mark.parametrize(
    "parameters",
    [
        {"decode": ("a", [1, 2.5, None], {"b": (True,)})},
        {"decode": [(1, 2), (3, 4)]},
        {"decode": np.arange(6.0).reshape(2, 3)},
        {"decode": np.array([True, False])},
        {"solver": LBFGS()},
        {"structure": StructuredCRF(alpha=3.0)},
    ],
    ids=["nested", "pairs", "floats", "booleans", "solver", "estimator"],
)
def test_parameters_of_all_kinds(model, tmp_path, parameters):
    changed = copy.copy(model).set_params(structure=None).set_params(**parameters)
    changed.save(tmp_path / "model.mls")
    again = load(tmp_path / "model.mls")
    for name, value in parameters.items():
        found = getattr(again, name)
        assert type(found) is type(value)
        if isinstance(value, StructuredCRF):
            assert found.get_params() == value.get_params()
        elif isinstance(value, np.ndarray):
            np.testing.assert_array_equal(found, value)
            assert found.dtype == value.dtype
        else:
            assert found == value


class OwnSolver:
    def solve(self, problem, tol, start=None):
        raise NotImplementedError


class OwnEstimator(StructuredCRF):
    pass


def test_objects_of_other_packages_are_not_saved(model, tmp_path):
    changed = copy.copy(model).set_params(solver=OwnSolver())
    with pytest.raises(TypeError, match=r"solver=.* cannot be saved"):
        changed.save(tmp_path / "model.mls")
    changed.set_params(solver=None).__class__ = OwnEstimator
    with pytest.raises(TypeError, match="OwnEstimator cannot be saved"):
        changed.save(tmp_path / "model.mls")


def test_two_saves_are_equal_byte_for_byte(model, file, monkeypatch):
    first = file.read_bytes()
    monkeypatch.setattr(time, "time", lambda: 2e9)
    model.save(file)
    assert file.read_bytes() == first
    load(file).save(file)
    assert file.read_bytes() == first


def test_loading_imports_one_estimator_only(file):
    code = f"""
import sys, mlestruct
sys.path.append({os.path.dirname(own.__file__)!r})
mlestruct.load({str(file)!r}, trusted=["own_decoders"])
others = "linkage baselines torch models.chain models.pairs models.grid metrics.events".split()
assert not [name for name in others if f"mlestruct.{{name}}" in sys.modules], sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_flipped_bit_is_refused_or_harmless(file):
    """Bits that no checksum covers, such as dates of members, leave the model as it was."""
    whole = file.read_bytes()
    intact = load(file)
    rng = np.random.default_rng(0)
    refused = 0
    for bit in rng.choice(8 * len(whole), size=400, replace=False):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        try:
            model = load(file)
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
        load(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["learned"].update(predict=1), "header says what no model"),
        (lambda h: h["learned"].update(converged_="yes"), "converged_ is 'yes'"),
        (lambda h: h["parameters"].update(__class__=1), "__class__"),
        (lambda h: h.update(predict="anything"), "header says what no model"),
        (lambda h: h.update({"class": "mlestruct.models.persistence:load"}), "no class '.*:load'"),
        (lambda h: h.update({"class": "mlestruct.learning.lbfgs:LBFGS"}), "not a model"),
        (lambda h: h.update({"class": "sklearn.svm:SVC"}), "no class 'sklearn.svm:SVC'"),
        (lambda h: h.update({"class": "mlestruct.models.base:BaseEstimator"}), "no class"),
        (lambda h: h["parameters"]["solver"].update({"class": "subprocess:Popen"}), "no class"),
        (lambda h: h["parameters"].update(decode={"import": "os:system"}), "model uses os:system"),
        (
            lambda h: h["parameters"].update(
                decode={"import": "mlestruct.models.persistence:json.dumps"}, structure=None
            ),
            "header says what no model",
        ),
        (lambda h: h["parameters"].update(alpha={"array": "coef"}), "'coef' is missing"),
        (lambda h: h["layout"].update(classes=10**12), "counts more than there are"),
        (lambda h: h["history"].update(gap=[1.0]), "history is not a table of numbers"),
        (lambda h: h["learned"].update(duality_gap_=-5.0), "duality_gap_ is -5.0"),
        (lambda h: h.update(feature_names=["x0"]), "not a model"),
        (lambda h: h.pop("history"), "model.mls: .*: 'history' is missing$"),
        (lambda h: h.pop("layout"), "model.mls: .*: 'layout' is missing$"),
        (lambda h: h.update(format=True), "format True, .* reads format 4"),
        (lambda h: h.update(format=2), "format 2, .* reads format 4"),
        (lambda h: h.update(format=99, mlestruct="7"), "format 99.*'7'.*reads format 4"),
    ],
)
def test_headers_that_no_model_has_are_refused(file, change, message):
    rewritten(file, header=change)
    with pytest.raises(ModelFileError, match=message):
        load(file)


@pytest.mark.parametrize(
    "coef",
    [
        np.full(2, np.nan), np.full(2, np.inf), np.zeros((2, 1)), np.zeros(1),
        np.zeros(2, dtype=np.float32), np.zeros(2, dtype=complex), np.array(["x"] * 2),
    ],
    ids=["nan", "inf", "2-d", "too few", "float32", "complex", "text"],
)  # fmt: skip
def test_weights_that_no_model_has_are_refused(file, coef):
    assert load(file).coef_.shape == (2,)
    rewritten(file, coef=coef)
    with pytest.raises(ModelFileError):
        load(file)


@pytest.mark.parametrize(
    ("make", "changed"),
    [
        (graph_model, {"classes": [f"c{k}" for k in range(3000)]}),
        (ising_model, {"n_variables": 10**7}),
    ],
)
def test_sizes_that_the_weights_do_not_have_take_no_memory(make, changed, tmp_path):
    path = tmp_path / "model.mls"
    make()[0].save(path)
    load(path)  # what it imports and compiles is not counted
    rewritten(path, lambda header: header["layout"].update(changed))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=r"weights do not fit|more than there are weights"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_pipes_and_links_to_themselves_are_refused(model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is a pipe"):
        mlestruct.load(tmp_path / "pipe")
    os.symlink(tmp_path / "loop.mls", tmp_path / "loop.mls")
    with pytest.raises(OSError, match=r"cannot write .*loop\.mls"):
        model.save(tmp_path / "loop.mls")


def test_objects_are_not_unpickled(file):
    stream = io.BytesIO()
    np.save(stream, np.array([print], dtype=object), allow_pickle=True)
    rewritten(file, extra={"array0.npy": stream.getvalue()})
    with pytest.raises(ModelFileError):
        load(file)


def test_files_cannot_grow_when_they_are_read(file):
    rewritten(file, coef=np.zeros(10**6), compression=zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 100_000
    with pytest.raises(ModelFileError, match="damaged"):
        load(file)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")
def test_saving_keeps_permissions_and_follows_links(model, tmp_path):
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
    assert load(tmp_path / "new.mls").alpha == model.alpha


@pytest.mark.skipif(sys.platform == "win32", reason="devices of POSIX")
@pytest.mark.parametrize("place", ["/dev/null", "."])
def test_saving_to_what_is_no_file_is_refused(model, place):
    with pytest.raises(OSError, match="not a regular file"):
        model.save(place)


SAVER = """
import sys, mlestruct
sys.path.append(sys.argv[2])
model = mlestruct.load(sys.argv[1], trusted=["own_decoders"])
print("ready", flush=True)
while True:
    model.save(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_save_leaves_a_whole_file(file):
    for pause in (0.0, 0.003, 0.01, 0.02):
        command = [sys.executable, "-c", SAVER, str(file), os.path.dirname(own.__file__)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        load(file)
    left = [path for path in file.parent.iterdir() if path != file]
    assert len(left) <= 1  # a name exists only between two system calls


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there are no such devices")
@pytest.mark.parametrize("device", ["zero", "null", "full"])
def test_devices_are_not_read(device):
    with pytest.raises(ModelFileError, match="a device, expected a file"):
        mlestruct.load(f"/dev/{device}")  # the first never ends: it took all memory


def test_sets_of_forbidden_transitions_are_saved(tmp_path):
    X, Y = [np.eye(3)] * 2, [[0, 1, 2], [2, 1, 0]]
    model = mlestruct.ChainCRF(forbidden_transitions={(0, 0), (2, 2)}).fit(X, Y)
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    assert set(again.forbidden_transitions) == {(0, 0), (2, 2)}
    for one, other in zip(model.predict_marginals(X), again.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(one, other)
