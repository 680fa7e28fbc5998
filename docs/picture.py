"""Draw the picture of README.md and the first page: `python docs/picture.py`."""

import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent

if __name__ == "__main__":
    runpy.run_path(str(HERE.parent / "examples" / "plot_scheduling.py"), run_name="__main__")
    plt.savefig(HERE / "schedule.png", dpi=80)
