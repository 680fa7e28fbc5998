"""
Who is who in the next picture? Tracking pedestrians
====================================================

Boxes around pedestrians in two street scenes (TUD-Campus and TUD-Stadtmitte, which come with the
package motmetrics). Only every fifth frame is used and a tenth of the boxes is missing, so boxes of
one person overlap little. A matching CRF with four features of a pair of boxes learns on one scene
and links the boxes of the other; links from frame to frame become tracks. The rival is the
Hungarian method, on overlaps or on distances. Each method has five settings to choose from.
"""

import time
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import motmetrics
import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import log_loss

from mlestruct import BipartiteMatchingCRF, PairInput
from mlestruct.metrics import pair_f1, reliability

STRIDE = 5
DATA = Path(motmetrics.__file__).parent / "data"


def scene(name, seed):
    """The boxes of the frames, each as (id, x, y, width, height)."""
    boxes = motmetrics.io.loadtxt(DATA / name / "gt.txt", fmt="mot15-2D").reset_index()
    boxes = boxes[boxes["FrameId"] % STRIDE == 1].sample(frac=0.9, random_state=seed).sort_index()
    columns = ["Id", "X", "Y", "Width", "Height"]
    return [frame[columns].reset_index(drop=True) for _, frame in boxes.groupby("FrameId")]


def overlap(one, two):
    """Intersection over union of all pairs of boxes."""
    low = np.maximum(one[:, None, :2], two[None, :, :2])
    high = np.minimum((one[:, :2] + one[:, 2:])[:, None], (two[:, :2] + two[:, 2:])[None])
    both = np.prod(np.clip(high - low, 0, None), axis=2)
    return both / (np.prod(one[:, 2:], axis=1)[:, None] + np.prod(two[:, 2:], axis=1) - both)


def compared(first, second):
    """All pairs of boxes of two frames: one row each, positions of the boxes as ids."""
    one, two = first.to_numpy()[:, 1:], second.to_numpy()[:, 1:]
    size = np.sqrt(one[:, None, 3] * two[None, :, 3])
    move = two[None, :, :2] + two[None, :, 2:] / 2 - one[:, None, :2] - one[:, None, 2:] / 2
    move = move / size[:, :, None]
    features = {
        "overlap": overlap(one, two),
        "sideways": -np.abs(move[:, :, 0]),
        "upwards": -np.abs(move[:, :, 1]),
        "height": -np.abs(np.log(two[None, :, 3] / one[:, None, 3])),
    }
    index = pd.MultiIndex.from_product([first.index, second.index], names=["box", "next box"])
    return pd.DataFrame({name: values.ravel() for name, values in features.items()}, index=index)


def read(name, seed):
    """Samples: the pairs of boxes of consecutive frames, and which pairs are one person."""
    frames = scene(name, seed)
    tables = [compared(a, b) for a, b in pairwise(frames)]
    same = [(a["Id"].to_numpy()[:, None] == b["Id"].to_numpy()).ravel()
            for a, b in pairwise(frames)]  # fmt: skip
    return frames, tables, [PairInput.from_frame(table) for table in tables], same


frames, tables, X, Y = read("TUD-Stadtmitte", 0)
new_frames, new_tables, X_new, Y_new = read("TUD-Campus", 1)

# %%
# A matching CRF: half of the scene to learn, half to choose alpha.
start = time.process_time()
half = len(X) // 2
path = BipartiteMatchingCRF(perfect=False).fit_path(X[:half], Y[:half], [0.01, 0.1, 1, 10, 100])
model = path.best(X[half:], Y[half:], lambda e, x, y: e.approximate_log_likelihood(x, y).mean())
linked = [frame["linked"].to_numpy() for frame in model.predict_links(X_new)]
seconds = time.process_time() - start


# %%
# The Hungarian method on overlaps above, or distances below a threshold.
def hungarian(table, similarity, threshold):
    values = similarity(table).unstack().to_numpy()
    chosen = np.zeros(values.shape, dtype=bool)
    chosen[linear_sum_assignment(-values)] = True
    return (chosen & (values > threshold)).ravel()


def f1(found, truth):
    found, truth = np.concatenate(found), np.concatenate(truth)
    return 2 * (found & truth).sum() / (found.sum() + truth.sum())


choices = {
    "Hungarian on overlap": (lambda x: x["overlap"], [0.0, 0.1, 0.2, 0.3, 0.5]),
    "Hungarian on distance": (lambda x: -np.hypot(x["sideways"], x["upwards"]),
                              [-2.0, -1.0, -0.5, -0.3, -0.2]),
}  # fmt: skip
results = {}
for name, (similarity, thresholds) in choices.items():
    start = time.process_time()
    scores = [f1([hungarian(x, similarity, t) for x in tables], Y) for t in thresholds]
    threshold = thresholds[int(np.argmax(scores))]
    found = [hungarian(x, similarity, threshold) for x in new_tables]
    results[name] = found, time.process_time() - start
results["matching CRF"] = linked, seconds


# %%
# Tracks: a box continues the track of the box that it is linked with.
def tracks(found):
    names, count = [np.arange(len(new_frames[0]))], len(new_frames[0])
    for a, b, chosen in zip(new_frames, new_frames[1:], found, strict=False):
        table = chosen.reshape(len(a), len(b))
        own = np.arange(count, count + len(b))
        count += len(b)
        own[np.nonzero(table)[1]] = names[-1][np.nonzero(table)[0]]
        names.append(own)
    return names


def identity(found):
    """IDF1 and identity switches of motmetrics."""
    accumulator = motmetrics.MOTAccumulator(auto_id=True)
    for frame, names in zip(new_frames, tracks(found), strict=True):
        distance = np.where(np.eye(len(frame), dtype=bool), 0.0, np.nan)
        accumulator.update(frame["Id"].tolist(), names.tolist(), distance)
    table = motmetrics.metrics.create().compute(accumulator, metrics=["idf1", "num_switches"])
    return float(table["idf1"].iloc[0]), int(table["num_switches"].iloc[0])


print("                       F1 of links  IDF1  switches  CPU s")
for name, (found, spent) in results.items():
    idf1, switches = identity(found)
    print(f"{name:22} {f1(found, Y_new):11.3f} {idf1:6.3f} {switches:8d} {spent:7.2f}")
assert np.isclose(pair_f1(model, X_new, Y_new), f1(linked, Y_new))
happened, p, weight = model.events(X_new, Y_new)
ece, loss = reliability(happened, p, weight).ece, log_loss(happened, p, sample_weight=weight)
print(f"calibration error of the probabilities: {ece:.3f}, log loss {loss:.3f}")

# %%
# The predicted links. The width of a line is its probability.
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
people = {name: k for k, name in enumerate(sorted(set(pd.concat(new_frames)["Id"])))}
colours = plt.colormaps["tab10"]
answers = model.predict_links(X_new)
for t, (a, b, table, truth) in enumerate(zip(new_frames, new_frames[1:], answers, Y_new,
                                             strict=False)):  # fmt: skip
    for (i, j), row, right in zip(table.index, table.itertuples(), truth, strict=True):
        if row.linked:
            ends = [frame["X"][k] + frame["Width"][k] / 2 for frame, k in ((a, i), (b, j))]
            axes.plot(ends, [t, t + 1], "-" if right else "--", color=colours(people[a["Id"][i]]),
                      linewidth=0.5 + 3 * row.probability)  # fmt: skip
for t, frame in enumerate(new_frames):
    for x, width, name in frame[["X", "Width", "Id"]].to_numpy():
        axes.plot(x + width / 2, t, "o", color=colours(people[name]), markersize=5)
axes.set(xlabel="position across the picture", ylabel=f"every {STRIDE}th frame")
axes.set_title("Predicted links. Colours: true people; dashed: wrong", loc="left", fontsize=10)
plt.show()
