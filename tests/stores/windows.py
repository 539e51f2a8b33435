"""Files that behave as on Windows, for code of fedplug; the other branch of `fedplug.stores.system`.

As a pytest plugin it serves whole suites: `PYTHONPATH=tests/stores pytest -p windows plugins/fedplug-flower`.
"""

import builtins
import errno
import fcntl
import importlib.util
import io
import os
import re
import shutil
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from unittest import mock

MISSING = ["fork", "fchmod", "fchown", "pread", "pwrite"]
MISSING += ["O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"]
FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f]|[. ]$|(?i:con|prn|aux|nul|com\d|lpt\d)(\.|$)')
IN_USE = "The process cannot access the file because it is being used by another process"


@contextmanager
def as_on_windows():
    """Takes away what Windows lacks: fork, links, open folders, changes of open files, names in two cases."""
    with ExitStack() as stack:
        for name in MISSING:
            stack.enter_context(_without(os, name))
        for module, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "mkdir")):
            stack.enter_context(_refusing(module, name, _refuse_name))
        for name in ("rename", "replace", "unlink", "remove"):
            stack.enter_context(_refusing(os, name, _refuse_open))
        stack.enter_context(_refusing(os, "symlink", _refuse_link))
        stack.enter_context(mock.patch.object(shutil, "_use_fd_functions", False))
        from fedplug.stores import system

        for name, value in vars(_windows_branch(system)).items():
            if name in system.__all__:
                stack.enter_context(mock.patch.object(system, name, value))
        yield


def pytest_configure(config):
    stack = ExitStack()
    stack.enter_context(as_on_windows())
    config.add_cleanup(stack.close)


def _windows_branch(system):
    """The module as Windows imports it."""
    spec = importlib.util.spec_from_file_location(system.__name__, system.__file__)
    module = importlib.util.module_from_spec(spec)
    msvcrt = ModuleType("msvcrt")
    msvcrt.LK_NBLCK, msvcrt.LK_UNLCK, msvcrt.locking = 2, 0, _locking
    with (
        mock.patch.dict(sys.modules, {"msvcrt": msvcrt, "fcntl": None}),
        mock.patch.object(sys, "platform", "win32"),
    ):
        spec.loader.exec_module(module)
    return module


def _locking(descriptor, how, count):
    """Locks bytes of an open file at its position."""
    del count
    assert os.lseek(descriptor, 0, os.SEEK_CUR) > os.fstat(descriptor).st_size  # others may read the contents
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB if how else fcntl.LOCK_UN)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


@contextmanager
def _without(module, name):
    value = getattr(module, name)
    delattr(module, name)
    try:
        yield
    finally:
        setattr(module, name, value)


def _refusing(module, name, refuse):
    """Patches a function so that it may refuse calls of fedplug."""
    function = getattr(module, name)

    def call(*arguments, **keywords):
        if _is_from_fedplug():
            refuse(name, *arguments)
        return function(*arguments, **keywords)

    return mock.patch.object(module, name, call)


def _is_from_fedplug():
    """Whether fedplug is among the nearest callers; the nearest may be a library, such as pathlib."""
    frame = sys._getframe(2)
    for _ in range(5):
        if frame is None:
            return False
        if frame.f_globals.get("__name__", "").startswith("fedplug"):
            return True
        frame = frame.f_back
    return False


def _refuse_name(function, path, *_):
    if isinstance(path, int):
        return
    path = Path(os.fsdecode(path))
    if function == "open" and path.is_dir():
        raise PermissionError(errno.EACCES, "Permission denied", str(path))
    if path == Path(os.devnull) or "site-packages" in path.parts:
        return
    bad = [part for part in path.parts[1:] if FORBIDDEN.search(part)]
    siblings = os.listdir(path.parent) if path.parent.is_dir() else []
    bad += [name for name in siblings if name != path.name and name.casefold() == path.name.casefold()]
    if bad:
        raise OSError(errno.EINVAL, f"no name on Windows beside {siblings}", str(path))


def _refuse_open(function, path, *targets):
    for each in (path, *targets):
        if _is_open(os.path.realpath(os.fsdecode(each))):
            raise PermissionError(errno.EACCES, IN_USE, os.fsdecode(each))
    if function == "rename" and targets and os.path.lexists(targets[0]):
        raise FileExistsError(errno.EEXIST, "File exists", os.fsdecode(targets[0]))


def _is_open(path):
    """Whether this process has a file open or mapped, or one in a folder."""
    names = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    maps = Path("/proc/self/maps").read_text().splitlines()
    names += ["/" + line.partition("/")[2] for line in maps]
    return any(name == path or name.startswith(path + "/") for name in names)


def _refuse_link(function, *_):
    raise OSError(errno.EPERM, "A required privilege is not held by the client")
