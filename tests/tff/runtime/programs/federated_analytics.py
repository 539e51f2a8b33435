"""Counts words, and describes numbers of clients, without a model."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

WORDS = ["to", "be", "or", "not"]
TEXTS = ["to be or not", "not to be", "be be be", ""]


@tff.tensorflow.computation(tff.SequenceType(np.str_))
def count_words(lines):
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(WORDS, tf.range(len(WORDS), dtype=tf.int64)), num_oov_buckets=1
    )

    def add(counts, line):
        ids = table.lookup(tf.strings.split(line))
        return counts + tf.math.bincount(tf.cast(ids, tf.int32), minlength=len(WORDS) + 1)

    return lines.reduce(tf.zeros([len(WORDS) + 1], tf.int32), add)


@tff.tensorflow.computation(tff.SequenceType(np.float32))
def moments(numbers):
    def add(sums, number):
        return sums[0] + 1, sums[1] + number, sums[2] + number * number

    return numbers.reduce((0.0, 0.0, 0.0), add)


@tff.tensorflow.computation(np.float32, np.float32, np.float32)
def mean_and_variance(count, total, squares):
    mean = total / count
    return collections.OrderedDict(mean=mean, variance=squares / count - mean * mean)


@tff.federated_computation(
    tff.FederatedType(tff.SequenceType(np.str_), tff.CLIENTS),
    tff.FederatedType(tff.SequenceType(np.float32), tff.CLIENTS),
)
def analyze(lines, numbers):
    counts = tff.federated_map(count_words, lines)
    sums = tff.federated_sum(tff.federated_map(moments, numbers))
    return collections.OrderedDict(
        total=tff.federated_sum(counts),
        most=tff.federated_max(counts),
        least=tff.federated_min(counts),
        described=tff.federated_map(mean_and_variance, sums),
    )


def main():
    lines = [tf.data.Dataset.from_tensor_slices(text.split(" ")) for text in TEXTS]
    numbers = [
        tf.data.Dataset.from_tensor_slices(np.arange(size, dtype=np.float32)).shuffle(size, seed=1)
        for size in (3, 5, 2, 9)
    ]
    return analyze(lines, numbers)
