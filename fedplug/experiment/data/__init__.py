"""The data of an experiment: sources, one a file, and how examples are spread over clients.

What a user's own function returns, ``[data] source = "package.module:function"``, is described in `function`.
Must not import TensorFlow.
"""

from fedplug.experiment.data.federated import Examples, FederatedData
from fedplug.experiment.data.load import load_data

__all__ = ["Examples", "FederatedData", "load_data"]
