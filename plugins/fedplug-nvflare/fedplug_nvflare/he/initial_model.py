"""The server's persistor: it loads the initial model, and has no model to save."""

from __future__ import annotations

from nvflare.apis.fl_context import FLContext
from nvflare.app_common.abstract.learnable_persistor import LearnablePersistor
from nvflare.app_common.abstract.model import ModelLearnable

__all__ = ["InitialModel"]


class InitialModel(LearnablePersistor):
    """Loads the model of another persistor. The encrypted sums of later rounds are not saved."""

    def __init__(self, persistor_id: str) -> None:
        """Takes the id of the persistor that loads the model."""
        super().__init__()
        self.persistor_id = persistor_id

    def load(self, fl_ctx: FLContext) -> ModelLearnable:
        """Returns the initial model."""
        model: ModelLearnable = fl_ctx.get_engine().get_component(self.persistor_id).load(fl_ctx)
        return model

    def save(self, learnable: ModelLearnable, fl_ctx: FLContext) -> None:
        """Saves nothing: only the sites can read the sum, and each keeps its model."""
