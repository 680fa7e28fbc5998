"""
Learning a planner's priorities from past schedules
===================================================

A workshop has two machines and a working day of eight hours. A planner starts each waiting job on
one machine at one hour, or not today. The best schedule for given scores is an integer program,
which HiGHS solves to within 0.5 % with an upper bound. `StructuredCRF` calls only this solver. It
learns the planner's priorities from past schedules, with a certificate, and gives the probability
of every start on a new day.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from mlestruct import StructuredCRF
from mlestruct.structures import DecoderSpace

rng = np.random.default_rng(6)
MACHINES, HOURS = 2, 8


def make_day(n_jobs=5):
    """Jobs with hours of work, value, deadline and the machine they like; all possible starts."""
    jobs = {
        "work": rng.integers(1, 5, size=n_jobs),
        "value": rng.uniform(0.2, 2.0, size=n_jobs),
        "deadline": rng.integers(3, 9, size=n_jobs),
        "machine": rng.integers(MACHINES, size=n_jobs),
    }
    starts = [
        (job, machine, hour)
        for job in range(n_jobs)
        for machine in range(MACHINES)
        for hour in range(HOURS - jobs["work"][job] + 1)
    ]
    return {**jobs, "starts": np.array(starts)}


def features(day):
    """Of every start: the job's value, hours late, hours waited, and whether the machine fits."""
    job, machine, hour = day["starts"].T
    end = hour + day["work"][job]
    late = np.maximum(end - day["deadline"][job], 0)
    fits = machine == day["machine"][job]
    return np.column_stack([day["value"][job], -late, -hour / 5, fits])


def constraints(day):
    """Each job starts at most once; each machine does at most one job in each hour."""
    job, machine, hour = day["starts"].T
    n_jobs, size = len(day["work"]), len(job)
    rows, columns = [job], [np.arange(size)]
    for later in range(4):
        busy = np.flatnonzero(later < day["work"][job])
        rows.append(n_jobs + machine[busy] * HOURS + hour[busy] + later)
        columns.append(busy)
    entries = np.concatenate(rows), np.concatenate(columns)
    return csr_array((np.ones(len(entries[0])), entries), shape=(n_jobs + MACHINES * HOURS, size))


def decode(scores, day):
    """A schedule within 0.5 % of the best one, and an upper bound of the best one's score."""
    if "program" not in day:
        day["program"] = LinearConstraint(constraints(day), ub=1.0)
    found = milp(
        -scores,
        constraints=day["program"],
        bounds=Bounds(0, 1),
        integrality=np.ones(len(scores)),
        options={"mip_rel_gap": 0.005},
    )
    return np.round(found.x), -found.mip_dual_bound


def schedules_of(day):
    """The output space of a day; certificates allow for schedules that are not the best ones."""
    return DecoderSpace(lambda scores: decode(scores, day), len(day["starts"]), exact=False)


# %%
# Past days. The planner chooses the best schedule under her own priorities, plus noise.
truth = np.array([2.0, 1.0, 0.8, 1.2])
days = [make_day() for _ in range(7)]
noise = [0.3 * rng.gumbel(size=len(day["starts"])) for day in days]
schedules = [decode(features(d) @ truth + n, d)[0] for d, n in zip(days, noise, strict=True)]
model = StructuredCRF(structure=schedules_of, features=features, tol=0.02, max_iter=300)
model.fit(days[:-1], schedules[:-1])
names = ["value", "lateness", "waiting", "machine"]
print({name: round(weight, 2) for name, weight in model.named_coef(names).items()})
print(
    f"{model.n_oracle_calls_} integer programs, certified: {model.certified_}, "
    f"relative gap {model.duality_gap_ / abs(model.objective_):.0e}"
)

# %%
# The weights rank schedules. Their scale differs from the planner's, because six noisy days are few
# and the entropy is approximate.
#
# A new day: the schedule, and the probability that a job is worked on in each hour.
day = days[-1]
plan = model.predict([day])[0].astype(bool)
tau = model.predict_marginals([day], tol=0.5)[0]
job, machine, hour = day["starts"].T

figure, (chart, heat) = plt.subplots(2, 1, figsize=(10.0, 6.4), sharex=True, layout="constrained")
colours = plt.get_cmap("Set2")(np.arange(len(day["work"])) % 8)
for j, m, h in day["starts"][plan]:
    chart.barh(
        m, day["work"][j], left=h, height=0.72, color=colours[j], edgecolor="white", linewidth=2
    )
    late = h + day["work"][j] > day["deadline"][j]
    chart.text(h + day["work"][j] / 2, m, f"job {j + 1}{' (late)' if late else ''}", ha="center",
               va="center", fontsize=9)  # fmt: skip
left_out = sorted(set(range(len(day["work"]))) - set(job[plan].tolist()))
waiting = ", ".join(str(j + 1) for j in left_out) or "none"
chart.set_title(f"Most probable schedule; not today: {waiting}", loc="left")
chart.set_yticks(range(MACHINES), [f"machine {m + 1}" for m in range(MACHINES)])
chart.invert_yaxis()

busy = np.zeros((len(day["work"]), HOURS))
for k in range(len(tau)):
    busy[job[k], hour[k] : hour[k] + day["work"][job[k]]] += tau[k]
image = heat.imshow(busy, aspect="auto", cmap="YlOrRd", vmin=0, vmax=1,
                    extent=(0, HOURS, len(busy) - 0.5, -0.5))  # fmt: skip
for j, deadline in enumerate(day["deadline"]):
    heat.plot([deadline] * 2, [j - 0.45, j + 0.45], color="#0072B2", linewidth=2.5)
heat.set_yticks(range(len(busy)), [f"job {j + 1}" for j in range(len(busy))])
heat.set_xlabel("hour")
heat.set_title("Probability that a job is worked on in each hour; deadlines in blue", loc="left")
figure.colorbar(image, ax=[chart, heat], shrink=0.5, pad=0.01)
for axes in (chart, heat):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
