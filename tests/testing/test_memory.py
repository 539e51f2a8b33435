"""Tests the memory measurement of reading a payload, which other activity of the process must not disturb."""

from __future__ import annotations

import threading

import tensorflow as tf

from fedplug.testing import memory

MIB = 2**20


def tensor(mebibytes):
    return tf.fill([mebibytes * MIB], tf.constant(1, tf.uint8))


def test_requests_are_counted():
    assert memory.of_tensors(lambda: tensor(16)) >= 16 * MIB
    assert memory.of_tensors(lambda: None) < MIB


def test_memory_freed_by_other_threads_hides_no_allocation():
    others = [tensor(64) for _ in range(3)]

    def action():
        if others:
            others.pop()
        return tensor(16)

    assert memory.of_tensors(action) >= 16 * MIB


def test_one_allocation_of_another_thread_does_not_count():
    kept = []

    def action():
        if not kept:
            other = threading.Thread(target=lambda: kept.append(tensor(64)))
            other.start()
            other.join()

    assert memory.of_tensors(action, allowance=MIB) < MIB
