"""The TensorFlow part of an experiment: model, loss, metrics, the clients' batches, the evaluation."""
