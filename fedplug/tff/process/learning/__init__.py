"""Learning processes: federated averaging with client state, and TFF's parts of it."""
