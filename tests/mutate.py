"""Mutation check: change one operator or constant at random, then run the tests of its folder.

    python tests/mutate.py --number 100 --seed 0 --rooms algorithms learning
    python tests/mutate.py --at src/mlestruct/learning/problem.py:60

A change that survives is a missing assertion or code without effect. All runs are in a copy of the
checkout, in `--folder`; an interrupted check continues there. The copy has a numba cache, keyed by
time and size of each source file. A changed file keeps both, so only kernels that depend on the
change are compiled again, in hard links to the cache.
"""

import argparse
import ast
import io
import itertools
import json
import keyword
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = "algorithms,structures,inference,learning,models,features,labels,metrics"
PAIRS = "+ -|* /|+= -=|*= /=|< <=|> >=|== !=|and or|True False|min max|minimum maximum"
CHANGES = {a: b for pair in PAIRS.split("|") for a, b in itertools.permutations(pair.split())}
CHANGES |= {str(digit): str(digit + 1) for digit in range(10)} | {"not": ""}
PYTEST = [sys.executable, *shlex.split("-m pytest -x -n 0 -p no:cacheprovider -q --tb=no -rfE")]


def sites(path):
    """The changes of a file: its path, line, offset and the text that is replaced."""
    source = path.read_text("utf-8")
    starts = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]
    nodes = list(ast.walk(ast.parse(source)))
    skipped = [node for node in nodes if isinstance(node, ast.Raise | ast.JoinedStr)]
    skipped += [getattr(node, name, None) for node in nodes for name in ("annotation", "returns")]
    skipped += [n for n in nodes if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    ranges = [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in skipped if n]
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        (line, column), old = token.start, token.string
        is_value = before.type in (tokenize.NAME, tokenize.NUMBER) or before.string in ("]", ")")
        is_skipped = (
            any(first <= token.start < last for first, last in ranges)
            or (old in "+-*/" and (not is_value or keyword.iskeyword(before.string)))
            or (old in "+*" and tokenize.STRING in (before.type, after.type))
            or (old == "not" and (before.string == "is" or after.string == "in"))
            or (old == "True" and token.line[:column].endswith("strict="))
            or (old[:2] in ("mi", "ma") and after.string != "(")
        )
        if old in CHANGES and not is_skipped:
            yield str(path), line, starts[line - 1] + column, old


def test_files(module):
    """Test files of a module's room: its own, then those that name most of it and of its users."""
    name, folder = re.sub("^_|_kernels$", "", module.stem), Path("tests", *module.parts[2:-1])
    body = ast.parse(module.read_text("utf-8")).body
    defined = [node.name for node in body if hasattr(node, "name")]
    imports = re.compile(rf"^from .*\b{module.stem}\b", re.MULTILINE)
    others = Path("src/mlestruct").glob("**/[a-z]*.py")
    users = [other.stem for other in others if imports.search(other.read_text("utf-8"))]
    words = re.compile("|".join(rf"\b{word}\b" for word in [name, *defined, *users]))

    def rank(file):
        count = len(words.findall(file.read_text("utf-8")))
        return file != folder / f"test_{name}.py", -count, file.parent != folder, file

    return sorted(Path("tests", module.parts[2]).glob("**/test_*.py"), key=rank)


def run(file, folder, cache, limit):
    """The test that fails, or None, and the seconds of CPU; a run is ended after `limit`."""
    own = {"PYTHONPATH": f"{folder}/src:{folder}", "NUMBA_CACHE_DIR": str(cache), "CI": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [*PYTEST, str(file)], cwd=folder, env={**os.environ, **own}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
    )  # fmt: skip
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    by = failed[1] if failed else f"{file} (exit {done.returncode})"
    return (None if done.returncode in (0, 5) else by), seconds


def write(path, source, times):
    path.write_text(source, "utf-8")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def noticed_by(path, offset, old, files, folder, times):
    """The test that notices a change, or None."""
    cache, source, stat = folder / "cache of the change", path.read_text("utf-8"), path.stat()
    changed = (source[:offset] + CHANGES[old] + source[offset + len(old) :]).rstrip()
    for file in files:
        if file not in times:
            by, times[file] = run(file, folder, folder / "cache", resource.RLIM_INFINITY)
            if by:
                print(f"{file} is left out: {by} fails without a change", flush=True)
                times[file] = 0.0
        if times[file]:
            shutil.rmtree(cache, ignore_errors=True)
            shutil.copytree(folder / "cache", cache, copy_function=os.link)
            write(path, changed.ljust(len(source)), stat)
            by, _ = run(file, folder, cache, 30 + int(5 * times[file]))
            write(path, source, stat)
            if by:
                return by
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="+", default=ROOMS.split(","))
    parser.add_argument("--without", nargs="*", default=[], help="modules to leave out")
    parser.add_argument("--at", nargs="*", default=[], help="path:line, all changes of this line")
    parser.add_argument("--files", type=int, default=8, help="most test files per change")
    parser.add_argument("--tests", nargs="*", help="test files, not those of the module's folder")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "mutations"))
    options = parser.parse_args()
    folder = options.folder.resolve()
    (folder / "cache").mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    for name in ("src", "tests", "benchmarks"):
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2("pyproject.toml", folder)
    for path in folder.glob("src/**/*.py"):  # a changed file may be longer by these spaces
        write(path, path.read_text("utf-8") + " " * 8, path.stat())
    paths = sorted(p for room in options.rooms for p in Path("src/mlestruct", room).glob("**/*.py"))
    changes = [c for p in paths if str(p) not in options.without for c in sites(p)]
    if options.at:
        chosen = [c for c in changes if f"{c[0]}:{c[1]}" in options.at]
    else:
        chosen = random.Random(options.seed).sample(changes, min(options.number, len(changes)))
    record = folder / f"record-{options.seed}.jsonl"
    lines = record.read_text().splitlines() if record.exists() and not options.at else []
    known, times = {tuple(change): by for change, by in map(json.loads, lines)}, {}
    for change in chosen:
        name, line, offset, old = change
        if change not in known:
            files = options.tests or test_files(Path(name))[: options.files]
            known[change] = noticed_by(folder / name, offset, old, files, folder, times)
            with record.open("a") as file:
                file.write(json.dumps([change, known[change]]) + "\n")
        outcome = f"noticed by {known[change]}" if known[change] else "survived"
        print(f"{name}:{line} {old} -> {CHANGES[old] or '(nothing)'}: {outcome}", flush=True)
    noticed = sum(known[change] is not None for change in chosen)
    print(f"{noticed} of {len(chosen)} noticed: {noticed / max(len(chosen), 1):.0%}")


if __name__ == "__main__":
    main()
