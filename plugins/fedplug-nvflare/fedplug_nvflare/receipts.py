"""The last accepted payloads of each client, which decide on the client's residual.

NVFlare's events report the fate of contributions. The client learns of accepted ones in the header of its
next task. They are written to a file as soon as the round's model is stored.
"""

from __future__ import annotations

import json
import secrets
import threading
import zlib
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from fedplug.stores.files import whole_file
from fedplug_nvflare.update import ACCEPTED, RECEIPT, REFUSED, SERVED, mean_of

__all__ = ["Receipts"]

_FILE = "fedplug_receipts.json"
_LONGEST = 200
"""Maximum length of a receipt in characters. Longer ones from clients are ignored."""

_KEPT = {AppEventType.AFTER_LEARNABLE_PERSIST, AppEventType.ROUND_STARTED, EventType.END_RUN}
"""Events by which the model of the last round is stored, if at all."""


_NO_EVENTS = (
    "the server's workflow fires no event BEFORE_TRAIN_TASK, so fedplug knows neither the model of a round "
    "nor which updates were accepted; use FedAvg, FedProx, FedOpt, SCAFFOLD or ScatterAndGather, or remove "
    "FedplugEncoder"
)
"""The reason why the updates of a task cannot be decoded, as in cyclic weight transfer."""


class Receipts:
    """Records, reports and stores the receipts; a component of the server's app forwards every event."""

    _lock = threading.Lock()  # of the class, because NVFlare copies components

    def __init__(self, path: str | None, owner: FLComponent) -> None:
        """Starts without accepted receipts.

        Args:
            path: The file of the receipts. None for one in the job's folder, for this job only.
            owner: The component that forwards events. It ends the job after an error.
        """
        self._given = None if path is None else Path(path).absolute()
        self._run = secrets.token_hex(8)  # the simulator gives every job the same id
        self._owner = owner
        self._path: Path | None = None
        self._this_round: dict[str, str] = {}
        self._accepted: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._is_training = False

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Handles an event of NVFlare's server.

        A file that cannot be read ends the job at its start: clients would otherwise undo accepted updates.

        Raises:
            OSError: The file cannot be written; NVFlare logs it, and the job continues.
        """
        if event_type == EventType.START_RUN:
            try:
                self._open(fl_ctx)
            except (OSError, ValueError) as error:
                self._owner.system_panic(str(error), fl_ctx)  # fires an event, which returns here
            return
        with self._lock:
            if event_type == AppEventType.AFTER_CONTRIBUTION_ACCEPT:
                self._record(fl_ctx)
            elif event_type == AppEventType.AFTER_AGGREGATION:
                if mean_of(fl_ctx.get_prop(AppConstants.AGGREGATION_RESULT)) != {}:  # a refused round
                    self._accepted.update(self._this_round)
                self._this_round.clear()
            elif event_type == AppEventType.BEFORE_TRAIN_TASK:
                self._is_training = True
            elif event_type == EventType.AFTER_TASK_DATA_FILTER:
                self._tell(fl_ctx)
            elif event_type in _KEPT:
                self._write()

    def _open(self, fl_ctx: FLContext) -> None:
        if self._given is not None:
            path = self._given
        else:
            path = Path(fl_ctx.get_workspace().get_run_dir(fl_ctx.get_job_id())).absolute() / _FILE
        if path.exists():
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
                if kept != _checked(kept["receipts"]):
                    raise ValueError("its checksum is wrong")
                self._accepted = kept["receipts"]
            except (KeyError, RecursionError, TypeError, ValueError) as error:
                raise ValueError(
                    f"{path} is no file of receipts, or is damaged ({error}); restore it, or delete it: then "
                    "each client undoes the residual of its last update"
                ) from error
            self._written = dict(self._accepted)
        self._path = path  # set last: an unreadable file must not be overwritten

    def _record(self, fl_ctx: FLContext) -> None:
        result = fl_ctx.get_prop(AppConstants.TRAINING_RESULT)
        if not fl_ctx.get_prop(AppConstants.AGGREGATION_ACCEPTED) or not isinstance(result, Shareable):
            return
        receipt = result.get_header(RECEIPT)
        if isinstance(receipt, str) and len(receipt) <= _LONGEST:
            self._this_round[_client(fl_ctx)] = receipt

    def _tell(self, fl_ctx: FLContext) -> None:
        task = fl_ctx.get_prop(FLContextKey.TASK_DATA)  # this client's copy
        if isinstance(task, Shareable):
            task.set_header(SERVED, self._run)
            if not self._is_training:
                task.set_header(REFUSED, _NO_EVENTS)
            if receipt := self._accepted.get(_client(fl_ctx)):
                task.set_header(ACCEPTED, receipt)

    def _write(self) -> None:
        if self._path is None or self._accepted == self._written:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self._path) as file:
            file.write(json.dumps(_checked(self._accepted), indent=1, sort_keys=True).encode())
        self._written = dict(self._accepted)


def _checked(receipts: dict[str, str]) -> dict[str, object]:
    """Returns the content of a file of receipts."""
    checksum = zlib.crc32(json.dumps(receipts, sort_keys=True).encode())
    return {"receipts": receipts, "crc32": checksum}


def _client(fl_ctx: FLContext) -> str:
    peer = fl_ctx.get_peer_context()
    return str(peer.get_identity_name()) if peer else ""
