"""The results of an experiment: tables, a picture and a page, from the files of its folder.

This package does not import TensorFlow, and imports Matplotlib and Jinja only to draw.
"""

from fedplug.tff.experiment.report.curves import plot
from fedplug.tff.experiment.report.folder import read_experiments
from fedplug.tff.experiment.report.page import require_libraries, write_report
from fedplug.tff.experiment.report.tables import printed

__all__ = ["plot", "printed", "read_experiments", "require_libraries", "write_report"]
