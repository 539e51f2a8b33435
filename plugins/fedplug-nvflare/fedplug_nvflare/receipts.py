"""Which payloads of each client the server accepted last: what decides over the residual on the client.

NVFlare says by events what became of a contribution. What was accepted in a round that was aggregated is told
to the client in the header of its next task, and written to a file as soon as the round's model is kept.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from fedplug_nvflare.update import ACCEPTED, RECEIPT, SERVED

__all__ = ["Receipts"]

_FILE = "fedplug_receipts.json"
_LONGEST = 200
"""In characters. Receipts come from clients: what is longer is none."""

_KEPT = {AppEventType.AFTER_LEARNABLE_PERSIST, AppEventType.ROUND_STARTED, EventType.END_RUN}
"""The model of the last round is kept by then, where it is kept at all."""


class Receipts:
    """Records, tells and keeps the receipts; a component of the server's app hands every event on to it."""

    def __init__(self, path: str | None, owner: FLComponent) -> None:
        """With nothing accepted.

        Args:
            path: The file that keeps them; None: one in the folder of the job, for this job only.
            owner: The component that hands the events on; in its name the job is ended where need be.
        """
        self._given = path
        self._run = secrets.token_hex(8)  # the simulator gives every job the same id
        self._owner = owner
        self._path: Path | None = None
        self._this_round: dict[str, str] = {}
        self._accepted: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._lock = threading.Lock()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Does what an event of NVFlare's server calls for.

        A file that cannot be read ends the job before it begins: clients would undo what was accepted.

        Raises:
            OSError: The file cannot be written; NVFlare logs it, and the job goes on.
        """
        if event_type == EventType.START_RUN:
            try:
                self._open(fl_ctx)
            except (OSError, ValueError) as error:
                self._owner.system_panic(str(error), fl_ctx)  # an event itself, which comes back here
            return
        with self._lock:
            if event_type == AppEventType.AFTER_CONTRIBUTION_ACCEPT:
                self._record(fl_ctx)
            elif event_type == AppEventType.AFTER_AGGREGATION:
                result = fl_ctx.get_prop(AppConstants.AGGREGATION_RESULT)
                if not isinstance(result, FLModel) or result.params:  # else the round was refused
                    self._accepted.update(self._this_round)
                self._this_round.clear()
            elif event_type == EventType.AFTER_TASK_DATA_FILTER:
                self._tell(fl_ctx)
            elif event_type in _KEPT:
                self._write()

    def _open(self, fl_ctx: FLContext) -> None:
        if self._given is not None:
            path = Path(self._given)
        else:
            path = Path(fl_ctx.get_workspace().get_run_dir(fl_ctx.get_job_id())) / _FILE
        if path.exists():
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
                self._accepted = {str(client): str(receipt) for client, receipt in kept.items()}
            except (AttributeError, ValueError) as error:
                raise ValueError(
                    f"{path} is no file of receipts, or is damaged ({error}); restore it, or delete it: then "
                    "each client undoes the residual of its last update"
                ) from error
            self._written = dict(self._accepted)
        self._path = path  # what could not be read is not written over

    def _record(self, fl_ctx: FLContext) -> None:
        result = fl_ctx.get_prop(AppConstants.TRAINING_RESULT)
        if not fl_ctx.get_prop(AppConstants.AGGREGATION_ACCEPTED) or not isinstance(result, Shareable):
            return
        receipt = result.get_header(RECEIPT)
        if isinstance(receipt, str) and len(receipt) <= _LONGEST:
            self._this_round[_client(fl_ctx)] = receipt

    def _tell(self, fl_ctx: FLContext) -> None:
        task = fl_ctx.get_prop(FLContextKey.TASK_DATA)  # this client's copy of it
        if isinstance(task, Shareable):
            task.set_header(SERVED, self._run)
            if receipt := self._accepted.get(_client(fl_ctx)):
                task.set_header(ACCEPTED, receipt)

    def _write(self) -> None:
        if self._path is None or self._accepted == self._written:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_name(self._path.name + ".new")
        with new.open("w", encoding="utf-8") as file:
            json.dump(self._accepted, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        self._written = dict(self._accepted)


def _client(fl_ctx: FLContext) -> str:
    peer = fl_ctx.get_peer_context()
    return str(peer.get_identity_name()) if peer else ""
