"""The documentation's site: the repository's Markdown files, and a reference from the docstrings.

``make docs`` builds it. The sources are the whole repository, because pages link to the READMEs and the
measurements, and these links must work on a code host, too.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import sys
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before autodoc imports TensorFlow
sys.path.insert(0, str(Path(__file__).parent))  # for `llms`

import tensorflow_federated as tff
from sphinx.application import Sphinx

import fedplug

project = "fedplug"
author = copyright = "The fedplug authors"
version = release = fedplug.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "llms",
]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "csrc/README.md",
    "docs/**.md",
    "benchmarks/results/*.md",
    "plugins/*/README.md",
    "plugins/*/benchmarks/results/*.md",
    "plugins/*/examples/results/*.md",
]
exclude_patterns = [".*", "build", "dist", "runs", "plugins/*/.venv*", "plugins/*/build"]

myst_heading_anchors = 4  # with the names that code hosts use, so that links work in both places

autoclass_content = "both"  # the constructor's docstring describes its arguments
autodoc_member_order = "groupwise"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
default_role = "py:obj"  # a name in single backticks is a link if the reference has it, else code

# The reference must have every full name of fedplug in a type or role. Names of other projects would need
# their indices from the network; private base classes are not part of the interface.
nitpick_ignore_regex = [
    ("py:obj", r".*"),
    ("py:.*", r"(?!fedplug\.).*"),
    ("py:class", r".*\._\w+"),
    ("py:class", r"fedplug\..*\.(CodedStage|InProcessA?[Ss]yncContext|ValueCoder)"),
]

# autodoc must find the names that a package imports on first use.
for name in ("fedplug", "fedplug.tff.runtime", "fedplug.testing"):
    package = importlib.import_module(name)
    for public in package.__all__:
        setattr(package, public, getattr(package, public))

# The stub documents the compiled functions that `fedplug.kernels` exports.
stub = runpy.run_path(str(Path(fedplug.__file__).with_name("_kernels.pyi")), run_name="fedplug.kernels")
for name in fedplug.kernels.__all__:
    if isinstance(getattr(fedplug.kernels, name), BuiltinFunctionType):
        setattr(fedplug.kernels, name, stub[name])


smartquotes = False  # llms.txt is plain text

html_theme = "furo"
html_title = f"fedplug {release}"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_extra_path = ["redirect"]  # redirects the site's root to the front page, docs/index.html
copybutton_exclude = ".linenos, .gp, .go"

llms_summary = "fedplug compresses federated-learning updates; error feedback keeps what was not sent."


def setup(app: Sphinx) -> None:
    """Adjusts what has no setting."""
    gc.freeze()  # otherwise the garbage collector examines TensorFlow's objects again and again
    gc.set_threshold(100_000, 50, 1000)
    app.connect("autodoc-process-docstring", mark_returns_as_text, priority=400)  # before napoleon
    # Releases the context that importing TFF creates, which complains at the interpreter's end.
    app.connect("build-finished", lambda *_: tff.test.set_no_default_context())


def mark_returns_as_text(*event: Any) -> None:
    """Keeps Napoleon from taking text before a colon in "Returns:" as a type; types are annotations here."""
    lines: list[str] = event[-1]
    for number, line in enumerate(lines[:-1]):
        if line.strip() in ("Returns:", "Yields:"):
            text = lines[number + 1].lstrip()
            lines[number + 1] = lines[number + 1].removesuffix(text) + f": {text}"
