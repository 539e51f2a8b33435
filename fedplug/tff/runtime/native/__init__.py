"""TFF's stock worker as a runtime."""
