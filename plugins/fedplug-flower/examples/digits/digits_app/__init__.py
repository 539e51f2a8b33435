"""A Flower app that trains a small network on handwritten digits with compressed updates."""
