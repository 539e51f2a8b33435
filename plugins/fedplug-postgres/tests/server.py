"""A PostgreSQL server of the tests, in a folder of its own: started, killed and started again."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

PASSWORD = "open sesame"
_DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))


def binaries() -> Path | None:
    """The folder of the newest server that is installed."""
    found = shutil.which("postgres")
    return Path(found).parent if found else _DEBIAN[-1].parent if _DEBIAN else None


class Server:
    """Listens on 127.0.0.1. The role 'postgres' needs no password, all others do."""

    def __init__(self, folder: Path) -> None:
        programs = binaries()
        assert programs is not None, "tests are skipped where there is none"
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._make_data()
        (self._data / "pg_hba.conf").write_text(
            "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        )
        self.start()

    def url(self, database: str = "postgres", role: str = "postgres", **options: object) -> str:
        """Returns the URL of a store."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}?{query}"

    def sql(self, *statements: str, database: str = "postgres") -> list[tuple]:
        """Runs statements as the superuser. Returns the rows of the last."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Returns when it takes connections."""
        options = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        command = [self._programs / "postgres", "-D", self._data]
        command += [f"--{name}={value}" for name, value in options.items()]
        deadline = time.monotonic() + 60
        self._begin(command)
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                self.sql("SELECT 1")
                return
            said = (self._folder / "log").read_text()
            if time.monotonic() > deadline:
                raise RuntimeError(said)
            if self._process.poll() is not None:
                # The system may take a while to end processes that were killed.
                if "pre-existing shared memory block" not in said[-500:]:
                    raise RuntimeError(said)
                self._begin(command)
            time.sleep(0.02)

    def _begin(self, command: list[object]) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                _as_another(command), stdout=log, stderr=log, start_new_session=True, cwd=self._folder
            )

    def kill(self) -> None:
        """`kill -9` of all of its processes at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGSTOP)  # else some see others die, and end in their own way
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ends it for good."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait()

    def _pids(self) -> list[int]:
        """Returns the postmaster and its children, which have their own process groups."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [self._process.pid, *map(int, children)]

    def _make_data(self) -> None:
        """Makes the data folder, and tries once more: on a busy machine `initdb` has failed."""
        command = [self._programs / "initdb", "--pgdata", self._data, "--username=postgres"]
        command += ["--auth=trust", "--encoding=UTF8", "--no-sync"]
        for is_last in (False, True):
            done = subprocess.run(
                _as_another(command), check=False, capture_output=True, text=True, cwd=self._folder
            )
            if done.returncode == 0:
                return
            said = f"initdb ended with {done.returncode} and said:\n{done.stdout}{done.stderr}"
            if is_last:
                raise RuntimeError(said)
            print(said, file=sys.stderr)
            shutil.rmtree(self._data, ignore_errors=True)


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server in a new folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="fedplug-postgres-") as name:
        folder = Path(name)
        if os.getuid() == 0:
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
        server = Server(folder)
        try:
            yield server
        finally:
            server.stop()


def _as_another(command: list[object]) -> list[str]:
    """The server refuses to run as root, and it is to end with the tests, however they end."""
    user = ["--reuid=nobody", "--clear-groups"] if os.getuid() == 0 else []
    return ["setpriv", "--pdeathsig=INT", *user, *map(str, command)]
