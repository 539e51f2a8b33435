"""The in-process runtime: TFF computations in the TensorFlow of this process, where custom ops run."""
