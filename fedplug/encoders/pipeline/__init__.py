"""The pipeline, the only composite of stages, and the parts that it is made of."""
