"""The pipeline, which is the only composite of stages, and its parts."""
