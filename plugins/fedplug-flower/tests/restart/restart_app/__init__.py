"""A training that waits while a SuperNode is restarted."""
