"""Streams the weights of a trainer over HTTP to two serving processes, exact to the bit.

    python examples/stream_weights.py

A serving process asks for the changes since the version it holds, and waits until there are some. It keeps
the weights in a store: one of the two is killed during the training, and continues from there when it is
started again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fedplug_torch
import torch

import fedplug

STEPS, KILL_AT, RESTART_AT = 30, 10, 20
MAX_BYTES = 2**28
"""Maximum size of the weights, and of a message with them."""


def new_model() -> torch.nn.Module:
    """Returns the model of the trainer and of the serving processes, in bfloat16."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(256, 1024), torch.nn.Tanh(), torch.nn.Linear(1024, 256)
    return torch.nn.Sequential(*layers).to(torch.bfloat16)


def digest(model: torch.nn.Module) -> str:
    """Returns a hash of the model's bits."""
    bits = b"".join(tensor.view(torch.uint8).numpy().tobytes() for tensor in model.state_dict().values())
    return hashlib.sha256(bits).hexdigest()


class Weights(ThreadingHTTPServer):
    """The trainer's side: answers each request as soon as it has another version than the one reported."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.versions = fedplug_torch.Broadcaster("lossless", keep=STEPS)
        self.changed = threading.Condition()
        self.is_last = False
        self.messages = self.bytes_sent = 0

    def publish(self, model: torch.nn.Module, is_last: bool) -> None:
        """Makes a new version, and wakes the connections that wait for one."""
        with self.changed:
            self.versions.publish(model.state_dict())
            self.is_last = is_last
            self.changed.notify_all()

    def message(self, version: str | None) -> bytes:
        """Waits for news. Returns no bytes if there are none any more."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_last or self.versions.version not in (None, version))
            if self.versions.version == version:
                return b""
            message = self.versions.message(version)
            self.messages, self.bytes_sent = self.messages + 1, self.bytes_sent + len(message)
            return message


class Request(BaseHTTPRequestHandler):
    """A request, whose path is the version of the serving process. Anything else gets the whole weights."""

    server: Weights

    def do_GET(self) -> None:
        """Answers with a message. An empty one is the last."""
        message = self.server.message(self.path.removeprefix("/") or None)
        with contextlib.suppress(ConnectionError):  # the process was killed
            self.send_response(200)
            self.send_header("Content-Length", str(len(message)))
            self.end_headers()
            self.wfile.write(message)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


def receive(port: int, version: str | None) -> bytes:
    """Returns the message for a version. Raises ValueError if it is larger than any should be."""
    with contextlib.closing(HTTPConnection("127.0.0.1", port)) as trainer:
        trainer.request("GET", f"/{version or ''}")
        message = trainer.getresponse().read(MAX_BYTES + 1)
    if len(message) > MAX_BYTES:
        raise ValueError(f"the trainer sends more than {MAX_BYTES} bytes")
    return message


def serve(port: int, folder: str) -> None:
    """Runs a serving process until the trainer has no more weights. Prints a line for each version."""
    model = new_model()
    with fedplug.open_store(f"sqlite:///{folder}") as store:
        receiver = fedplug_torch.Receiver(store, max_bytes=MAX_BYTES)
        print(f"begins with version {receiver.version}", flush=True)
        if receiver.model is not None:
            model.load_state_dict(receiver.model)
        while message := receive(port, receiver.version):
            model.load_state_dict(receiver.apply(message))
            print(f"serves version {receiver.version}", flush=True)
    print(digest(model), flush=True)


def train(model: torch.nn.Module) -> Iterator[int]:
    """Takes small steps, as in fine-tuning. Yields their numbers."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for step in range(STEPS):
        x = torch.randn(32, 256, dtype=torch.bfloat16)
        torch.nn.functional.mse_loss(model(x), x.roll(1, dims=1)).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield step


def start(port: int, folder: str) -> subprocess.Popen[str]:
    """Starts a serving process."""
    command = [sys.executable, __file__, "--serve", str(port), folder]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def main() -> None:
    """Trains, kills and restarts the second serving process, and compares the bits at the end."""
    model = new_model()
    with tempfile.TemporaryDirectory() as folder, Weights() as trainer:
        threading.Thread(target=trainer.serve_forever, daemon=True).start()
        port, folders = trainer.server_address[1], [f"{folder}/first", f"{folder}/second"]
        serving = [start(port, one) for one in folders]
        for step in train(model):
            trainer.publish(model, is_last=step == STEPS - 1)
            if step == 0:
                for one in serving:  # both hold a version before the training continues
                    next(line for line in one.stdout if "serves" in line)
            elif step == KILL_AT:
                serving[1].kill()
                serving[1].communicate()
                print("the second serving process is killed", flush=True)
            elif step == RESTART_AT:
                serving[1] = start(port, folders[1])
        lines = [one.communicate()[0].splitlines() for one in serving]
        trainer.shutdown()
    print(f"started again, the second one {lines[1][0]}")
    plain = trainer.messages * sum(tensor.nbytes for tensor in model.state_dict().values())
    print(f"{trainer.messages} messages took {trainer.bytes_sent:,} bytes instead of {plain:,}")
    if any(one[-1] != digest(model) for one in lines):
        sys.exit("a serving process holds other bits than the trainer")
    print("both serving processes hold the trainer's bits")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=2, metavar=("PORT", "FOLDER"), help="run one serving process")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(int(arguments.serve[0]), arguments.serve[1])
    else:
        main()
