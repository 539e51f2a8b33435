"""A Flower app that waits while a SuperNode is restarted."""
