"""Training loops over TFF processes whose clients have states: `fedplug.Trainer` and what it works with."""
