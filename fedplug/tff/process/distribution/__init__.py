"""Distribution: how the server's model gets to the clients, dense or encoded."""
