"""What an experiment trains, in TensorFlow: model, loss, metrics, the clients' batches, the evaluation."""
