"""A slow disk: strace delays the system calls with which a process writes and waits, those of SQLite, too."""

import contextlib
import functools
import shutil
import subprocess

# Microseconds that each takes longer. So a commit that took 10 ms takes ten times as long.
DELAYS = {"fsync,fdatasync": 20_000, "pwrite64": 1_000, "unlink": 5_000}


def slowly(*command):
    """A command whose process is that of the program alone: killing it kills nothing else."""
    return ["strace", "-D", *_options(), *command]


@contextlib.contextmanager
def slowed_down(pid):
    """Within, a process that runs already is slow, as long as it lives."""
    with subprocess.Popen(
        ["strace", *_options(quiet=False), "-p", str(pid)], stderr=subprocess.PIPE
    ) as strace:
        assert b"attached" in strace.stderr.readline()
        try:
            yield
        finally:
            strace.terminate()
            try:
                strace.wait(timeout=10)
            except subprocess.TimeoutExpired:  # it waits for a thread of a killed process
                strace.kill()


@functools.cache
def usable():
    """Whether strace is there, and may be used."""
    if shutil.which("strace") is None:
        return False
    return not subprocess.run(slowly("true"), capture_output=True, check=False).returncode


def _options(quiet=True):
    injected = [f"--inject={calls}:delay_enter={delay}" for calls, delay in DELAYS.items()]
    return ["-f", *["-qq"] * quiet, "-o", "/dev/null", f"--trace={','.join(DELAYS)}", *injected]
