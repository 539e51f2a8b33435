"""A reply takes few Python calls: the codec of a training is made once, and the store is read once."""

import sys

from fedplug_flower import Compressed, CompressMod
from flwr.serverapp.strategy import FedAvg
from local_flower import Nodes, client_app, new_model


def test_a_reply_in_a_later_round_takes_few_calls_of_our_functions(tmp_path):
    """Counts from the message to the encoded reply in the client's SQLite store, without training."""
    count = 0

    def tell(frame, event, argument):
        nonlocal count
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        count += event == "call" and package in ("fedplug", "fedplug_flower")

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
    nodes.add(1, 2, app=client_app(mods=[counted]))
    nodes.run_rounds(Compressed(FedAvg(), "topk(0.01) | qsgd(8)"), [1, 2, 3], new_model())
    assert 0 < count <= 300
