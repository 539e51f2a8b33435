"""The site of the documentation: the repository's Markdown as it is, and a reference from the docstrings.

``make docs`` builds it. The sources are the whole repository, not this folder alone: pages link to the
README, to those of the plugins and to measurements, and these links work on a code host, too.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path
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
exclude_patterns = [".*", "build", "dist", "runs", "plugins/*/.venv", "plugins/*/build"]

myst_heading_anchors = 4  # named as code hosts name them, so that one link serves both

autoclass_content = "both"  # a constructor's arguments are described by it
autodoc_member_order = "groupwise"
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
default_role = "py:obj"  # a name in single backticks: a link where it has a place in the reference, else code

# Every name of fedplug that a type or a role states in full has to be in the reference. Names of others would
# need the indices of their sites, and the build should need no network; private bases are no interface.
nitpick_ignore_regex = [
    ("py:obj", r".*"),
    ("py:.*", r"(?!fedplug\.).*"),
    ("py:class", r".*\._\w+"),
    ("py:class", r"fedplug\..*\.(CodedStage|InProcessAsyncContext|ValueCoder)"),
]

# What a package imports on first use, autodoc should find at once.
for name in ("fedplug", "fedplug.tff.runtime", "fedplug.testing"):
    package = importlib.import_module(name)
    for public in package.__all__:
        setattr(package, public, getattr(package, public))


smartquotes = False  # what llms.txt says is plain text

html_theme = "furo"
html_title = f"fedplug {release}"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_extra_path = ["redirect"]  # the front page is docs/index.html: this leads there from the site's root
copybutton_exclude = ".linenos, .gp, .go"

llms_summary = "fedplug compresses federated-learning updates; error feedback keeps what was not sent."


def setup(app: Sphinx) -> None:
    """Mends what has no setting."""
    gc.freeze()  # else most of a build goes over what TensorFlow brought, again and again
    gc.set_threshold(100_000, 50, 1000)
    app.connect("autodoc-process-docstring", mark_returns_as_text, priority=400)  # before napoleon
    # Lets go of the context that TFF's import makes: it complains when it ends with the interpreter.
    app.connect("build-finished", lambda *_: tff.test.set_no_default_context())


def mark_returns_as_text(*event: Any) -> None:
    """Napoleon takes what "Returns:" has before a colon for a type; our types are annotations."""
    lines: list[str] = event[-1]
    for number, line in enumerate(lines[:-1]):
        if line.strip() in ("Returns:", "Yields:"):
            text = lines[number + 1].lstrip()
            lines[number + 1] = lines[number + 1].removesuffix(text) + f": {text}"
