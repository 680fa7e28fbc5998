"""Files of arrays and one JSON text: zip archives that cannot grow when they are read.

Members are not compressed and have checksums. No code is stored.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


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
