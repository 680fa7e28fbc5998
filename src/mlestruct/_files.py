"""Files that are written whole or not at all, and their content: arrays and one JSON text.

Contents are zip archives, not compressed and with checksums, that cannot grow when they are read.
No code is stored.
"""

from __future__ import annotations

import glob
import io
import json
import os
import platform
import re
import stat
import sys
import uuid
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def write_whole(path: str | Path, content: bytes) -> None:
    """Replace the content of a file; an interruption at any moment leaves the old content.

    A link is followed. The new file has the permissions of the old one, or those that the umask
    gives. What processes of this machine have left that were killed while they wrote is removed.
    """
    target = check_target(path)
    machine = re.sub(r"\W", "", platform.node()) or "unknown"
    start = f".{target.name}.{machine}."
    named = target.with_name(f"{start}{os.getpid()}.{uuid.uuid4().hex}.part")
    try:
        with named.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            os.chmod(named, stat.S_IMODE(target.stat().st_mode))
        os.replace(named, target)
    except BaseException as error:
        named.unlink(missing_ok=True)
        if isinstance(error, OSError):  # the system names the file for a moment, or none
            raise type(error)(f"cannot write {target}: {error.strerror}") from error
        raise
    for left in target.parent.glob(f"{glob.escape(start)}*.*.part"):
        process = left.name.removeprefix(start).partition(".")[0]
        if process.isdigit() and not _runs(int(process)):
            with suppress(OSError):
                left.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    if sys.platform == "win32":  # asking for a process would end it
        return True
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


def packed(header: Any, arrays: Arrays) -> bytes:
    """The content of a file: the same bytes for the same values."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("header.json"), json.dumps(header))  # dated 1980
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return content.getvalue()


def unpacked(file: BinaryIO) -> tuple[Any, Arrays]:
    """The JSON value and the arrays of a file; zipfile, json and NumPy raise many kinds of errors.

    No more memory is used than the file is large.
    """
    with zipfile.ZipFile(file) as archive:
        if any(info.compress_type for info in archive.infolist()):
            raise ValueError("members are compressed")
        found = {info.filename: info for info in archive.infolist()}
        if len(found) < len(archive.infolist()):
            raise ValueError("two members have the same name")
        if sum(info.file_size for info in found.values()) > file.seek(0, io.SEEK_END):
            raise ValueError("members are larger than the file")
        contents = {name: archive.read(info) for name, info in found.items()}
    header = json.loads(contents.pop("header.json"))
    return header, {name.removesuffix(".npy"): _array(own) for name, own in contents.items()}


def _array(content: bytes) -> NDArray[Any]:
    """The array of a .npy file, whose size must be the one that its header promises."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, fortran, dtype = read(stream)
    if (
        dtype.hasobject
        or dtype.itemsize * np.prod(shape, dtype=object) != len(content) - stream.tell()
    ):
        raise ValueError("an array of another size than its header says")
    flat = np.frombuffer(content, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C").copy()
