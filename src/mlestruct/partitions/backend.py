"""Where partitions are computed: the backend of a fit, and the one in this process."""

from __future__ import annotations

import copy
import pickle
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextvars import Token
from pathlib import Path
from typing import Any, Self

from ..learning.partition import States
from ..structures.contract import Marginals
from .host import Host, Reader
from .sources import ACTIVE, Source, loaded


class Partitioned:
    """One partition, as the driver sees it: a call, which a backend answers."""

    waits = False

    def __init__(self, source: Source, reader: Reader):
        self.source, self.reader = source, reader
        self.steps: list[tuple[str, tuple[Any, ...]]] = []  # of the first pass

    def __call__(self, method: str, *arguments: Any) -> Any:
        raise NotImplementedError

    def step(self, method: str, *arguments: Any) -> Any:
        """A call of the first pass, to be repeated where the partition is rebuilt."""
        found = self(method, *arguments)
        self.steps.append((method, arguments))
        return found


class Backend:
    """Computes partitions. As a context it is the one that fits inside use.

    n_partitions : into how many partitions samples in memory are cut
    """

    n_partitions: int = 1

    def open(self, sources: Sequence[Source], reader: Reader) -> list[Partitioned]:
        """The partitions, ready for calls."""
        raise NotImplementedError

    def each(self, function: Callable[..., Any], *items: Iterable[Any]) -> list[Any]:
        """`map`, at the same time where other processes compute."""
        return list(map(function, *items))

    def __enter__(self) -> Self:
        self._token: Token[Backend | None] = ACTIVE.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        ACTIVE.reset(self._token)


class LocalBackend(Backend):
    """Partitions in this process, one after the other; they need not fit into memory together.

    Parameters
    ----------
    memory : int, optional
        Bytes of partitions that are kept. Those beyond are read from their source again in every
        round, the ones unused for longest being dropped. By default all are kept.
    states : str or Path, optional
        A folder for the states of oracles (about as large as the marginals), which are otherwise
        in memory. They are removed after the fit.
    n_partitions : int
        Into how many partitions samples in memory are cut.
    """

    def __init__(
        self, memory: int | None = None, states: str | Path | None = None, n_partitions: int = 1
    ):
        if memory is not None and memory <= 0:
            raise ValueError(f"memory: expected a positive number of bytes, got {memory!r}")
        self.memory, self.states, self.n_partitions = memory, states, n_partitions

    def open(self, sources: Sequence[Source], reader: Reader) -> list[Partitioned]:
        held = _Held(self.memory)
        return [_LocalPartition(source, reader, held, self._kept()) for source in sources]

    def _kept(self) -> States:
        return {} if self.states is None else StatesOnDisk(Path(self.states))


class _Held:
    """The hosts in memory, the one used last at the end."""

    def __init__(self, memory: int | None):
        self._memory = memory
        self._hosts: OrderedDict[int, tuple[Host, int]] = OrderedDict()

    def get(self, key: int) -> Host | None:
        if key not in self._hosts:
            return None
        self._hosts.move_to_end(key)
        return self._hosts[key][0]

    def free(self, size: int) -> None:
        """Drop hosts until one of `size` bytes fits."""
        if self._memory is None:
            return
        while self._hosts and self._used + size > self._memory:
            self._hosts.popitem(last=False)

    def put(self, key: int, host: Host, size: int) -> None:
        self._hosts[key] = host, size
        self._hosts.move_to_end(key)
        if self._memory is not None:
            while len(self._hosts) > 1 and self._used > self._memory:
                self._hosts.popitem(last=False)

    @property
    def _used(self) -> int:
        return sum(size for _, size in self._hosts.values())


class _LocalPartition(Partitioned):
    """A partition that is read again if it was dropped."""

    def __init__(self, source: Source, reader: Reader, held: _Held, states: States):
        super().__init__(source, reader)
        self._held, self._states, self._size = held, states, 0

    def __call__(self, method: str, *arguments: Any) -> Any:
        host = self._held.get(id(self))
        if host is None:
            self._held.free(self._size)
            reader = copy.copy(self.reader)
            host = Host(*loaded(self.source), reader, self.steps, self._states)
        found = host.ask(method, *arguments)
        if method != "answer":  # the first pass changes what is held
            self._size = host.size
        self._held.put(id(self), host, self._size)
        return found


class StatesOnDisk(MutableMapping[int, list[Marginals]]):
    """States of oracles as files in a folder of their own, removed along with this object."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="states-", dir=folder))
        self._known: set[int] = set()

    def _file(self, number: int) -> Path:
        return self._folder / f"{number}.pickle"

    def __getitem__(self, number: int) -> list[Marginals]:
        if number not in self._known:
            raise KeyError(number)
        with self._file(number).open("rb") as file:
            found: list[Marginals] = pickle.load(file)
        return found

    def __setitem__(self, number: int, states: list[Marginals]) -> None:
        with self._file(number).open("wb") as file:
            pickle.dump(states, file, protocol=5)
        self._known.add(number)

    def __delitem__(self, number: int) -> None:
        if number not in self._known:
            raise KeyError(number)
        self._known.discard(number)
        self._file(number).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._known))

    def __len__(self) -> int:
        return len(self._known)

    def __del__(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
