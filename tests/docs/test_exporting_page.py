"""docs/exporting.md: its programs save models, and load them where the page says."""

from __future__ import annotations

import re

import tensorflow as tf
from pages import ROOT

PROGRAMS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "exporting.md").read_text(encoding="utf-8"), re.DOTALL
)
SAVE, LOAD, SAVE_STOCK = PROGRAMS


def op_types(path):
    model = tf.saved_model.load(path)  # kept, because a function does not keep its variables
    graph = model.compress.get_concrete_function().graph.as_graph_def()
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    return {node.op for body in bodies for node in body}


def test_a_saved_model_loads_in_a_new_process_and_without_fedplug_if_it_has_stock_ops(
    tmp_path, monkeypatch, python
):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(SAVE, names)
    exec(SAVE_STOCK, names)
    assert any(name.startswith("Fedplug>") for name in op_types("compressor"))
    assert not any(name.startswith("Fedplug>") for name in op_types("stock"))
    update = tf.random.stateless_normal([1000], seed=[1, 2])
    compressors = [tf.saved_model.load("compressor"), tf.saved_model.load("stock"), names["Compressor"](1000)]
    selected = [compressor.compress(update)["indices"].numpy().tolist() for compressor in compressors]
    assert selected == [selected[2]] * 3

    loaded = python("-c", LOAD + "print(taken['values'].shape)")
    assert (loaded.returncode, loaded.stdout) == (0, "(10,)\n"), loaded.stderr
