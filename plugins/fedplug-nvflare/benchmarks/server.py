"""The additions of the measured jobs to NVFlare's server: a model of given shapes, and a meter."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import numpy as np
import psutil
from nvflare.apis.event_type import EventType
from nvflare.apis.filter import Filter
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.model import ModelLearnable, make_model_learnable
from nvflare.app_common.abstract.model_persistor import ModelPersistor
from nvflare.app_common.app_event_type import AppEventType
from shapes import MODELS

__all__ = ["Meter", "ShapesPersistor"]

_SECONDS_BETWEEN_SAMPLES = 0.005


class ShapesPersistor(ModelPersistor):
    """Starts from a model of normally distributed weights, and stores nothing."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.model = model

    def load_model(self, fl_ctx: FLContext) -> ModelLearnable:
        """Returns the initial model."""
        rng = np.random.default_rng(0)
        weights = {
            name: rng.normal(0, 0.05, shape).astype(np.float32) for name, shape in MODELS[self.model].items()
        }
        return make_model_learnable(weights, {})

    def save_model(self, model: ModelLearnable, fl_ctx: FLContext) -> None:
        """Does nothing."""


class Meter(Filter):
    """Writes a JSON line per round: seconds, peak resident bytes so far, and seconds per update.

    Bytes at the beginning of the job, before a model is loaded, are subtracted. The meter is a filter because
    a recipe accepts filters. It changes nothing.
    """

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file
        self._process = psutil.Process()
        self._running = False
        self._begin = self._rss = self._peak = 0.0
        self._arrived = 0.0
        self._updates: list[float] = []

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Returns the message unchanged."""
        return shareable

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Measures rounds and results."""
        if event_type == EventType.START_RUN:
            self._rss = self._process.memory_info().rss
            self._running = True
            threading.Thread(target=self._sample, daemon=True).start()
        elif event_type == AppEventType.ROUND_STARTED:
            self._begin, self._updates = time.monotonic(), []
        elif event_type == EventType.BEFORE_TASK_RESULT_FILTER:
            self._arrived = time.monotonic()
        elif event_type == EventType.AFTER_PROCESS_SUBMISSION:
            self._updates.append(time.monotonic() - self._arrived)
        elif event_type == AppEventType.AFTER_AGGREGATION:
            measured = {
                "seconds": time.monotonic() - self._begin,
                "memory": self._peak - self._rss,
                "update_seconds": float(np.median(self._updates)),
                "updates": len(self._updates),
            }
            with Path(self.file).open("a", encoding="utf-8") as file:
                file.write(json.dumps(measured) + "\n")
        elif event_type == EventType.END_RUN:
            self._running = False

    def _sample(self) -> None:
        while self._running:
            self._peak = max(self._peak, self._process.memory_info().rss)
            time.sleep(_SECONDS_BETWEEN_SAMPLES)
