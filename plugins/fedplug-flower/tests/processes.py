"""Flower's commands in separate processes that store everything in one folder."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx

SECONDS = 150
"""Timeout in seconds of each wait. Passing tests do not reach it."""


def environment(home: Path) -> dict[str, str]:
    """Returns the environment of a command whose Flower folder is ``home``."""
    # Otherwise each process compiles Flower again, which takes longer than Flower's timeout.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        # Do not join another cluster on this machine.
        "RAY_ADDRESS": "local",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


class Flower:
    """A SuperLink, and SuperNodes if it is not a simulation. Ends its processes on exit."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.address = f"127.0.0.1:{_free_port()}"
        self.environment = environment(self.home)
        self._started: list[subprocess.Popen[bytes]] = []
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        port = self.address.rpartition(":")[2]
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n[superlink.test]\naddress = "{self.address}"\ninsecure = true\n'
        )
        self.start("superlink", "flower-superlink", "--insecure", "--port", port, *options)
        self.wait(self._answers)

    def __enter__(self) -> Flower:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Starts a command and writes its output to ``NAME.log``."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment, cwd=self.folder)
        self._started.append(process)
        return process

    def start_node(self, name: str, client: int, clients: int, address: str | None = None) -> None:
        """Starts a SuperNode, which connects to ``address`` or the SuperLink, and waits until it is known."""
        said = self.log(name).count("SuperNode ID")
        config = f"partition-id={client} num-partitions={clients}"
        server = address or self.address
        options = ("--superlink", server, "--port", str(_free_port()), "--node-config", config)
        self._nodes[name] = self.start(name, "flower-supernode", "--insecure", *options)
        self.wait(lambda: self.log(name).count("SuperNode ID") > said)

    def stop_node(self, name: str) -> None:
        """Terminates a SuperNode."""
        self._nodes[name].terminate()
        self._nodes[name].wait(SECONDS)

    def run(self, app: Path, config: str, *options: str) -> None:
        """Starts ``flwr run`` and streams its log to ``run.log``."""
        self.start("run", "flwr", "run", str(app), "test", "--stream", "--run-config", config, *options)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait(self, until: Callable[[], bool], seconds: float = SECONDS) -> None:
        end = time.monotonic() + seconds
        while not until():
            if time.monotonic() > end:
                logs = {
                    path.name: path.read_text(errors="replace")[-3000:] for path in self.folder.glob("*.log")
                }
                raise TimeoutError("\n".join(f"== {name}\n{text}" for name, text in logs.items()))
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"http://{self.address}/health").is_success
        except httpx.HTTPError:
            return False


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
