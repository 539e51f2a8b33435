"""A reply takes few Python calls: the codec of a training is made once."""

import sys

from fedplug_flower import Compressed, CompressMod
from flwr.serverapp.strategy import FedAvg
from local_flower import Nodes, client_app, new_model


def test_a_reply_in_a_later_round_takes_few_calls_of_our_functions(tmp_path):
    """Counts from the message to the encoded reply, without training and without the store's functions."""
    count = 0

    def tell(frame, event, argument):
        nonlocal count
        package, _, module = frame.f_globals.get("__name__", "").partition(".")
        ours = package in ("fedplug", "fedplug_flower") and not module.startswith("stores")
        count += event == "call" and ours

    def counted(message, context, call_next):
        nonlocal count

        def trained(message, context):
            sys.setprofile(None)
            reply = call_next(message, context)
            sys.setprofile(tell)
            return reply

        count = 0
        sys.setprofile(tell)
        try:
            return CompressMod()(message, context, trained)
        finally:
            sys.setprofile(None)

    nodes = Nodes(tmp_path)
    for node in (1, 2):
        nodes.add(node, client_app(mods=[counted]))
    nodes.run_rounds(Compressed(FedAvg(), "topk(0.01) | qsgd(8)"), [1, 2, 3], new_model())
    assert 0 < count <= 300
