"""What the functions of `fedplug.ops` do with TensorFlow tensors: the compiled op, or its reference."""
