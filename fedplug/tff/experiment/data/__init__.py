"""The data of an experiment: sources, one per file, and their division among clients.

`function` describes the result of a user's own function, ``[data] source = "package.module:function"``. This
package does not import TensorFlow.
"""

from fedplug.tff.experiment.data.federated import Examples, FederatedData
from fedplug.tff.experiment.data.load import load_data

__all__ = ["Examples", "FederatedData", "load_data"]
