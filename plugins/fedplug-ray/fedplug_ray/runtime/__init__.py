"""The runtime ``"ray"``: the clients of a TFF computation run on the workers of a Ray cluster."""
