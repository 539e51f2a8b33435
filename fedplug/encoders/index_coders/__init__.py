"""Index coders: the lossless stages that write the indices of the entries sent."""
