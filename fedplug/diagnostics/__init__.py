"""What this machine and this installation are, whether they work, and how fast they are."""
