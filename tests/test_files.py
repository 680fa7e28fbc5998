"""Files are written whole, and what killed processes have left is removed."""

import os
import subprocess
import sys

import pytest

from mlestruct._files import write_whole

KILLED = """
import os, signal, sys
from mlestruct import _files
_files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
_files.write_whole(sys.argv[1], b"new")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be asked for there")
def test_what_a_killed_process_has_left_is_removed_by_the_next_one(tmp_path):
    target = tmp_path / "model[1].mls"
    write_whole(target, b"old")
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert target.read_bytes() == b"old"
    (left,) = set(tmp_path.iterdir()) - {target}
    machine = left.name.split(".")[-4]
    running = left.with_name(left.name.replace(left.name.split(".")[-3], str(os.getppid())))
    running.write_bytes(b"")  # another process is writing it
    elsewhere = left.with_name(left.name.replace(f".{machine}.", ".elsewhere."))
    elsewhere.write_bytes(b"")
    other = left.with_name(left.name.replace("model[1]", "model1"))
    other.write_bytes(b"")
    write_whole(target, b"newer")
    assert target.read_bytes() == b"newer"
    assert set(tmp_path.iterdir()) == {target, running, elsewhere, other}
