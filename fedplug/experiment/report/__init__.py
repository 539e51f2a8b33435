"""What an experiment shows: tables, a picture and a page, from the files of its folder.

Must not import TensorFlow; matplotlib only when something is drawn.
"""

from fedplug.experiment.report.page import write_report
from fedplug.experiment.report.picture import plot, require_matplotlib
from fedplug.experiment.report.tables import Summary, summarize, table, target_table
from fedplug.experiment.report.targets import FINAL_ROUNDS, Reached, reach

__all__ = [
    "FINAL_ROUNDS",
    "Reached",
    "Summary",
    "plot",
    "reach",
    "require_matplotlib",
    "summarize",
    "table",
    "target_table",
    "write_report",
]
