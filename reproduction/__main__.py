"""`python -m reproduction`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

from . import NAMES
from .runner import SettingError, reproduce, shown, summary, write_manifest

RECORDS = Path(__file__).parent / "results"
DATA = "MLESTRUCT_DATA"


def main(arguments=None):
    """Returns the exit status: 1 if an experiment failed, 2 for wrong arguments."""
    options = make_parser().parse_args(arguments)
    if options.list:
        width = max(map(len, NAMES))
        print("\n".join(f"{name:<{width}}  {load(name).TITLE}" for name in NAMES))
        return 0
    for name in options.names:
        if name not in (*NAMES, "all"):
            close = get_close_matches(name, NAMES, 1)
            hint = f"Did you mean {close[0]!r}? " if close else ""
            return wrong(f"no experiment {name!r}. {hint}There are {', '.join(NAMES)}, and all.")
    names = [name for name in NAMES if name in options.names or "all" in options.names]
    if options.show:
        folder = options.out or RECORDS
        files = [folder / name / f"{name}.json" for name in names or NAMES]
        records = [json.loads(file.read_text()) for file in files if file.is_file()]
        print("\n".join(map(shown, records)) if names else summary(records))
        return 0
    if not names:
        return wrong("name an experiment, or all; --list shows them.")
    data = options.data or os.environ.get(DATA)
    if data:
        if not Path(data).is_dir():
            return wrong(f"the data folder {data} does not exist.")
        os.environ[DATA] = str(data)
    out = options.out or Path("reproduction-quick" if options.quick else "reproduction-run")
    return run(names, out, options.quick, options.fresh)


def wrong(message):
    print(f"reproduction: {message}", file=sys.stderr)
    return 2


def make_parser():
    parser = argparse.ArgumentParser(
        prog="python -m reproduction",
        description="Runs experiments of the paper and writes JSON, CSV and PNG files. The same "
        "command resumes a run that was interrupted.",
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="experiments, or all")
    add("--list", action="store_true", help="list the experiments")
    add("--quick", action="store_true", help="small problems on generated data")
    add("--out", type=Path, help="folder of results (reproduction-run or reproduction-quick)")
    add("--data", type=Path, help=f"folder of the real data (${DATA})")
    add("--fresh", action="store_true", help="remove earlier results of these experiments")
    add("--show", action="store_true", help="print recorded results (of --out) and run nothing")
    return parser


def load(name):
    """The module of an experiment."""
    return import_module(f"{__package__}.{name.replace('-', '_')}")


def run(names, out, quick, fresh):
    """Run experiments one by one; a failure does not stop the others."""
    failed = []
    for name in names:
        try:
            print("\n" + shown(reproduce(name, load(name), out, quick, fresh)), flush=True)
            write_manifest(out)
        except KeyboardInterrupt:
            print("\ninterrupted; the same command without --fresh resumes", file=sys.stderr)
            return 130
        except (SettingError, OSError) as error:
            failed.append(f"{name}: {error}")
        except Exception as error:
            traceback.print_exc()
            failed.append(f"{name}: {type(error).__name__}: {error}")
    print(f"results: {out}")
    for text in failed:
        print(f"failed: {text}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
