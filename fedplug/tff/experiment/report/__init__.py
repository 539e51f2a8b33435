"""The results of an experiment: tables, a picture and a page, from the files of its folder.

This package does not import TensorFlow, and imports Matplotlib and Jinja only to draw.
"""

from fedplug.tff.experiment.report.curves import plot
from fedplug.tff.experiment.report.page import require_libraries, write_report
from fedplug.tff.experiment.report.tables import Summary, summarize, table, target_table
from fedplug.tff.experiment.report.targets import FINAL_ROUNDS, Reached, reach

__all__ = [
    "FINAL_ROUNDS",
    "Reached",
    "Summary",
    "plot",
    "reach",
    "require_libraries",
    "summarize",
    "table",
    "target_table",
    "write_report",
]
