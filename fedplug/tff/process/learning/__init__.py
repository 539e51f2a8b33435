"""Learning processes: federated averaging with client state, and what TFF brings to it."""
