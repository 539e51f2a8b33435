"""The conformance kit for authors of plugins. Only tests import it."""
