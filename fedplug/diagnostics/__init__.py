"""Diagnostics: the environment, whether the installation works, and its speed."""
