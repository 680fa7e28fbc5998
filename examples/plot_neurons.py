"""
Neurons: couplings, stimuli and ensembles
=========================================

A recording is a matrix of zeros and ones: a row for each frame, a column for each neuron. Which
neurons fire together, and which respond to a stimulus? `IsingMRF` learns the joint distribution of
all columns. Stimuli and earlier frames are further columns, so one model predicts any of them from
any others. If you need only the ensembles that respond to a stimulus, Fisher's exact test is enough
and faster; it is below.

The recording is generated, with three planted ensembles. One of them fires without any stimulus.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control, fisher_exact
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold

from mlestruct import IsingMRF

rng = np.random.default_rng(3)
N, FRAMES = 60, 3000
COLOURS = ["#D55E00", "#0072B2", "#009E73"]

# %%
# The recording. Trials of 20 frames show one of two stimuli or none. In half of the frames with its
# stimulus, an ensemble is active, and then each of its eight neurons fires with probability 0.5.
shown = np.repeat(rng.integers(-1, 2, FRAMES // 20), 20)
stimuli = (shown[:, None] == [0, 1]).astype(int)
planted = rng.permutation(N)[:24].reshape(3, 8)
spikes = rng.random((FRAMES, N)) < 0.03
for members, driven in zip(planted, [*stimuli.T, rng.random(FRAMES) < 0.3], strict=True):
    active = (driven == 1) & (rng.random(FRAMES) < 0.5)
    spikes[:, members] |= active[:, None] & (rng.random((FRAMES, 8)) < 0.5)

# %%
# Reading a recording. A CSV file has a column for each neuron and each stimulus. For a MATLAB file
# use `scipy.io.loadmat(path)["data"]`, for fluorescence a threshold, such as `data > 3`.
names = [f"neuron{i}" for i in range(N)] + ["stimulus0", "stimulus1"]
with TemporaryDirectory() as folder:
    path = Path(folder, "mouse.csv")
    pd.DataFrame(np.hstack([spikes, stimuli]).astype(int), columns=names).to_csv(path, index=False)
    X = pd.read_csv(path).to_numpy()


def with_lags(spikes, n_lags):
    """The columns of the current frame, then of the frames before it; the first rows are lost."""
    return np.hstack([spikes[n_lags - k : len(spikes) - k] for k in range(n_lags + 1)])


# %%
# Choosing a model. Neighbouring frames are alike, so folds are contiguous parts of the recording.
# The score is the log-likelihood of a held-out frame.
grid = {"alpha": [1.0, 10.0, 100.0], "l1": [1.0, 2.0]}
search = GridSearchCV(IsingMRF(), grid, cv=KFold(3)).fit(X)
model = search.best_estimator_
alone = GridSearchCV(IsingMRF(graph="none"), {"alpha": [1.0]}, cv=KFold(3)).fit(X)
print(f"log-likelihood of a held-out frame {search.best_score_:.2f} with {search.best_params_}, "
      f"{alone.best_score_:.2f} if neurons are independent")  # fmt: skip
print(f"{len(model.edges_)} couplings, likelihood exact: {model.is_exact_}, "
      f"relative gap {model.duality_gap_ / abs(model.objective_):.0e}")  # fmt: skip

# %%
# Stimuli from neurons: leave them out of what is known (-1). The model was fitted to the first 2000
# frames, and predicts the others.
train, test = X[:2000], X[2000:]
model = IsingMRF(**search.best_params_).fit(train)
known = np.where(np.arange(N + 2) < N, test, -1)
chance = model.predict_marginals(known)[:, N:]
for k in range(2):
    auc = roc_auc_score(test[:, N + k], chance[:, k])
    print(f"stimulus {k} predicted from one new frame: AUC {auc:.3f}")
lagged = IsingMRF(l1=2.0).fit(with_lags(X[:, :N], 1))
across = ((lagged.edges_ < N).sum(axis=1) == 1).sum()
print(f"couplings between successive frames: {across} of {len(lagged.edges_)} (none are planted)")


# %%
# Ensembles: which neurons respond to a stimulus? Fisher's exact test for every pair of a neuron and
# a stimulus, and the procedure of Benjamini and Hochberg for a false-discovery rate of 5 %.
def fisher(spikes, stimuli):
    """P-values of more spikes under the stimulus, shape (n_stimuli, n_neurons)."""
    p = np.empty((stimuli.shape[1], spikes.shape[1]))
    for k, i in np.ndindex(p.shape):
        on, fires = stimuli[:, k] == 1, spikes[:, i] == 1
        table = [[(on & fires).sum(), (on & ~fires).sum()],
                 [(~on & fires).sum(), (~on & ~fires).sum()]]  # fmt: skip
        p[k, i] = fisher_exact(table, alternative="greater").pvalue
    return p


start = time.perf_counter()
p = fisher(X[:, :N], X[:, N:])
responds = false_discovery_control(p.ravel()).reshape(p.shape) <= 0.05
seconds = time.perf_counter() - start
for k in range(2):
    found = set(np.flatnonzero(responds[k]).tolist())
    print(f"ensemble {k}: {len(found & set(planted[k].tolist()))} of 8 planted neurons, "
          f"{len(found - set(planted[k].tolist()))} others ({seconds:.1f} s)")  # fmt: skip

# %%
# The test looks at neurons one by one. It cannot find the ensemble without a stimulus, or tell
# which neurons fire together. The couplings do both. Right: 300 new frames, and the probability of
# each stimulus given the neurons of the same frame.
figure, axes = plt.subplot_mosaic(
    [["couplings", "raster"], ["couplings", "chance"]],
    figsize=(12, 5), width_ratios=[1, 1.25], height_ratios=[3, 1], layout="constrained",
)  # fmt: skip
order = np.concatenate([planted.ravel(), np.setdiff1d(np.arange(N), planted), [N, N + 1]])
left, raster, below = axes["couplings"], axes["raster"], axes["chance"]
left.imshow(model.coupling_matrix()[np.ix_(order, order)], cmap="RdBu_r", vmin=-1.5, vmax=1.5)
for k, colour in enumerate(COLOURS):
    left.plot([-2.2, -2.2], [8 * k - 0.4, 8 * k + 7.4], color=colour, linewidth=5)
left.set(xticks=[], yticks=[3.5, 11.5, 19.5, 41.5, 60.5], xlim=(-3, N + 1.5))
left.set_yticklabels(["ensemble 0", "ensemble 1", "no stimulus", "other\nneurons", "stimuli"])
left.set_title("Couplings (red), sorted by planted ensembles", loc="left", fontsize=10.5)
left.spines[:].set_visible(False)
left.tick_params(length=0)

frames, neurons = np.nonzero(test[:300, order[:N]])
colours = np.array([*np.repeat(COLOURS, 8), *["#b0b8bf"] * (N - 24)])
raster.scatter(frames, neurons, c=colours[neurons], marker="|", s=14)
raster.set(xlim=(0, 300), ylim=(N, -1), xticks=[], yticks=[])
raster.set_title("Spikes of new frames; the stimulus shown is shaded", loc="left", fontsize=10.5)
for k in range(2):
    for ax in (raster, below):
        ax.fill_between(np.arange(300), -1, N, where=test[:300, N + k] == 1, color=COLOURS[k],
                        alpha=0.12, linewidth=0)  # fmt: skip
    below.plot(chance[:300, k], color=COLOURS[k], linewidth=1)
below.set(xlim=(0, 300), ylim=(0, 1), xlabel="frame", ylabel="P(stimulus)")
plt.show()
