"""Writing files whole or not at all."""

from __future__ import annotations

import glob
import os
import platform
import re
import stat
import sys
import uuid
from contextlib import suppress
from pathlib import Path


def write_whole(path: str | Path, content: bytes) -> None:
    """Replace the content of a file; an interruption at any moment leaves the old content.

    A link is followed. The new file has the permissions of the old one, or those that the umask
    gives. The content goes to a file without a name first where the system has such files (Linux),
    so that a process that is killed leaves nothing behind, but for the moment between naming the
    file and moving it. What is left of such processes is removed.
    """
    target = check_target(path)
    named = target.with_name(f".{target.name}.{_machine()}.{os.getpid()}.{uuid.uuid4().hex}.part")
    try:
        descriptor, nameless = _open_new(named)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
            if target.exists():
                os.chmod(descriptor if nameless else named, stat.S_IMODE(target.stat().st_mode))
            if nameless:
                # An absolute path needs no src_dir_fd, but only with one the link is followed.
                os.link(f"/proc/self/fd/{descriptor}", named, src_dir_fd=descriptor)
        os.replace(named, target)
        _remove_leftovers(target)
    except BaseException as error:
        named.unlink(missing_ok=True)
        if isinstance(error, OSError):  # the system names the file for a moment, or none
            raise type(error)(f"cannot write {target}: {error.strerror}") from error
        raise


def _machine() -> str:
    """A name of this machine, on whose processes' numbers it can be asked whether they run."""
    return re.sub(r"\W", "", platform.node()) or "unknown"


def _remove_leftovers(target: Path) -> None:
    """Remove the files of processes of this machine that were killed while they wrote."""
    if sys.platform == "win32":  # asking for a process would end it
        return
    start = f".{target.name}.{_machine()}."
    for file in target.parent.glob(f"{glob.escape(start)}*.*.part"):
        process = file.name.removeprefix(start).partition(".")[0]
        if process.isdigit() and not _runs(int(process)):
            with suppress(OSError):
                file.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def check_target(path: str | Path) -> Path:
    """The file that `write_whole` replaces or makes; raises where it plainly cannot."""
    target = Path(os.path.realpath(path))  # Path.resolve depends on the version where links loop
    if target.is_symlink():
        raise OSError(f"cannot write {path}: the symbolic link leads back to itself")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"cannot write {target}: folder {target.parent} is not writable")
    if target.exists() and not target.is_file():
        raise OSError(f"cannot write {target}: it exists and is not a regular file")
    return target


def _open_new(named: Path) -> tuple[int, bool]:
    """A descriptor of a new file, and whether the file has no name yet."""
    flags = os.O_WRONLY | getattr(os, "O_BINARY", 0)
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # the file system has no such files
            return os.open(named.parent, flags | os.O_TMPFILE, 0o666), True
    return os.open(named, flags | os.O_CREAT | os.O_EXCL, 0o666), False
