"""The results of an experiment: tables, a picture and a page, from the files of its folder.

This package does not import TensorFlow, and imports Matplotlib and Jinja only to draw.
"""

from fedplug.tff.experiment.report.curves import plot
from fedplug.tff.experiment.report.page import require_libraries, write_report
from fedplug.tff.experiment.report.tables import (
    FINAL_ROUNDS,
    Reached,
    Summary,
    reach,
    summarize,
    table,
    target_table,
)

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
