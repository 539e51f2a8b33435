"""Aggregation: from what clients send to the server's update, as TFF computations and factories."""
