"""
Which neurons belong together? Ensembles in a recording
=======================================================

Sixty neurons fire at random. Under each of two stimuli a group of eight fires together now and
then. An Ising model learns which neurons are coupled; the neurons whose log odds, given all others,
predict a stimulus better than in shuffled recordings are its ensemble. The recording is generated,
so that the planted groups are known.
"""

import matplotlib.pyplot as plt

from mlestruct.datasets import make_spikes
from mlestruct.models import find_ensembles
from mlestruct.plotting import plot_couplings, plot_stimulus_roc

data = make_spikes(60, 2500, n_stimuli=2, ensemble_size=8, random_state=3)
found = find_ensembles(data.spikes, data.stimuli, n_shuffles=10, random_state=0)
print(found.report())
for s, members in enumerate(data.ensembles):
    print(f"planted under stimulus {s}: {' '.join(str(i) for i in members)}")

# %%
# The couplings between neurons, at their positions, and how well the model predicts each stimulus
# from the neurons of one frame.
model = found.model
between_neurons = (model.edges_ < 60).all(axis=1)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
plot_couplings(
    model.edges_[between_neurons],
    model.couplings_[between_neurons],
    data.coords,
    [found.neurons(s) for s in range(2)],
    ax=left,
)
plot_stimulus_roc(model.predict_stimuli(data.spikes), data.stimuli, ax=right)
left.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False)
right.set_title("stimuli predicted from neurons", loc="left", fontsize=10.5)
plt.show()
