"""Records what a program does to the files of a folder, and says what a crash at any point may leave of it.

The model is that of ALICE (Pillai et al., OSDI 2014) and CrashMonkey (Mohan et al., OSDI 2018), at its
weakest: a write or a change of length is on the disk for certain after an fsync of its file, a name (made or
removed) after an fsync of its folder; before that, each may be there or not, whatever came after it, and of
the last write the first 512-byte sectors alone.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

SECTOR = 512
CALLS = (
    "openat,close,dup,dup2,write,pwrite64,lseek,ftruncate,fsync,fdatasync,mkdir,unlink,unlinkat,rename,"
    "writev,pwritev,sendfile,copy_file_range,fallocate,mmap"
)
_LINE = re.compile(r"\d+ +(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


class Op(NamedTuple):
    """One change, or one wait until changes are on the disk.

    ``kind`` is "write", "length", "link", "unlink", "rename", "sync" (of a file), "sync names" or "said".
    ``file`` is the number of the file for what concerns contents, ``name`` its path within the folder. A
    rename, which is atomic, has the name before in ``data``.
    """

    kind: str
    file: int = 0
    name: str = ""
    offset: int = 0
    data: bytes = b""


class Trace:
    """The files of a folder before a program ran, and what it did to them."""

    def __init__(self, folder: Path, command: list[str], log: Path) -> None:
        self.folder = folder
        self.names: dict[str, int] = {}
        self.contents: dict[int, bytes] = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self._new(str(path.relative_to(folder)), path.read_bytes())
        self._now = dict(self.names)
        strace = ["strace", "-f", "-xx", "-s", "100000000", "-e", f"trace={CALLS}", "-o", str(log)]
        self.result = subprocess.run([*strace, *command], capture_output=True, text=True, check=False)
        self._open: dict[int, tuple[int, str]] = {}  # file (or -1: a folder) and name, by descriptor
        self._offsets: dict[int, int] = {}
        self._numbers = itertools.count(len(self.contents) + 1)
        lines = map(_LINE.match, log.read_text().splitlines())
        self.ops = [op for line in lines if line for op in self._ops(*line.groups())]

    def states(self, random: Random, dropped: int) -> Iterator[tuple[list[str], dict[str, bytes]]]:
        """Yields possible remains of a crash: the program's output so far, and contents by name.

        For every point between two changes: all of them; only those that are certain; the last write torn;
        and ``dropped`` times all but some that are not certain.
        """
        for end in range(len(self.ops) + 1):
            if 0 < end < len(self.ops) and self.ops[end - 1].kind.startswith(("sync", "said")):
                continue  # leaves what the point before or after leaves
            before = self.ops[:end]
            said = [op.name for op in before if op.kind == "said"]
            uncertain = self._uncertain(before)
            yield said, self._after(before, set())
            if uncertain:
                yield said, self._after(before, set(uncertain))
                last = before[uncertain[-1]]
                if last.kind == "write" and len(last.data) > SECTOR:
                    cut = random.randrange(1, -(-len(last.data) // SECTOR)) * SECTOR
                    part = last._replace(data=last.data[:cut])
                    yield (
                        said,
                        self._after([*before[: uncertain[-1]], part, *before[uncertain[-1] + 1 :]], set()),
                    )
                for _ in range(dropped):
                    without = {position for position in uncertain if random.random() < 0.4}
                    yield said, self._after(before, without)

    def after_all(self) -> dict[str, bytes]:
        """Contents by name when nothing is lost."""
        return self._after(self.ops, set())

    @staticmethod
    def _uncertain(ops: list[Op]) -> list[int]:
        """The positions of the changes that no fsync has confirmed."""
        found, files, folders = [], set(), set()
        for position in reversed(range(len(ops))):
            op = ops[position]
            if op.kind == "sync":
                files.add(op.file)
            elif op.kind == "sync names":
                folders.add(op.name)
            elif (op.kind in ("write", "length") and op.file not in files) or (
                op.kind in ("link", "unlink", "rename") and str(Path(op.name).parent) not in folders
            ):
                found.append(position)
        return found[::-1]

    def _after(self, ops: list[Op], without: set[int]) -> dict[str, bytes]:
        names = dict(self.names)
        contents = {file: bytearray(content) for file, content in self.contents.items()}
        for position, op in enumerate(ops):
            content = contents.setdefault(op.file, bytearray())
            if position in without:
                continue
            if op.kind == "write":
                content.extend(bytes(max(0, op.offset - len(content))))
                content[op.offset : op.offset + len(op.data)] = op.data
            elif op.kind == "length":
                content.extend(bytes(max(0, op.offset - len(content))))
                del content[op.offset :]
            elif op.kind == "link":
                names[op.name] = op.file
            elif op.kind == "unlink":
                names.pop(op.name, None)
            elif op.kind == "rename":
                names.pop(op.data.decode(), None)
                names[op.name] = op.file
        return {name: bytes(contents.get(file, b"")) for name, file in names.items()}

    def _new(self, name: str, content: bytes) -> int:
        file = len(self.contents) + 1
        self.contents[file] = content
        self.names[name] = file
        return file

    def _ops(self, call: str, arguments: str, result: str) -> Iterator[Op]:
        """The changes of one line of strace; refuses calls that the model does not know."""
        texts = [bytes.fromhex(text.replace("\\x", "")) for text in _TEXT.findall(arguments)]
        plain = _TEXT.sub("TEXT", arguments).split(", ")
        if result.startswith("-"):
            return
        if call == "openat":
            yield from self._opened(int(result), texts[0].decode(), plain[2])
        elif call == "rename" and (old := self._name(texts[0].decode())) is not None:
            new = self._name(texts[1].decode())
            assert new is not None, "the model does not know files that leave the folder"
            self._now[new] = self._now.pop(old)
            yield Op("rename", self._now[new], new, data=old.encode())
        elif call in ("unlink", "unlinkat", "rename", "mkdir"):
            name = self._name(texts[0].decode())
            assert name is None or call.startswith("unlink"), f"the model does not know {call}"
            if name is not None:
                self._now.pop(name)
                yield Op("unlink", name=name)
        elif call == "write" and plain[0] == "1":
            yield from (Op("said", name=line) for line in texts[0].decode().split())
        elif plain[0].isdigit() and int(plain[0]) in self._open:
            yield from self._used(call, int(plain[0]), plain, texts, int(result, 0))

    def _opened(self, descriptor: int, path: str, flags: str) -> Iterator[Op]:
        name = self._name(path)
        self._open.pop(descriptor, None)
        if name is None:
            return
        if (self.folder / name).is_dir():
            self._open[descriptor] = (-1, name)
            return
        if name not in self._now:
            self._now[name] = next(self._numbers)
            yield Op("link", self._now[name], name)
        self._open[descriptor] = (self._now[name], name)
        self._offsets[descriptor] = 0
        assert "O_TRUNC" not in flags, "the model does not know O_TRUNC"

    def _used(
        self, call: str, descriptor: int, plain: list[str], texts: list[bytes], result: int
    ) -> Iterator[Op]:
        file, name = self._open[descriptor]
        if call == "close":
            del self._open[descriptor]
        elif call in ("fsync", "fdatasync"):
            yield Op("sync names", name=name) if file == -1 else Op("sync", file)
        elif call == "write":
            yield Op("write", file, name, self._offsets[descriptor], texts[0][:result])
            self._offsets[descriptor] += result
        elif call == "pwrite64":
            yield Op("write", file, name, int(plain[-1]), texts[0][:result])
        elif call == "lseek":
            self._offsets[descriptor] = result
        elif call == "ftruncate":
            yield Op("length", file, name, int(plain[1]))
        else:
            raise AssertionError(f"the model does not know {call} of {name}")

    def _name(self, path: str) -> str | None:
        """The path within the folder; None for a file elsewhere."""
        inside = path == str(self.folder) or path.startswith(f"{self.folder}/")
        return str(Path(path).relative_to(self.folder)) if inside else None
