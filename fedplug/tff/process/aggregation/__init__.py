"""Aggregation: from the messages of clients to the server's update, as TFF computations and factories."""
