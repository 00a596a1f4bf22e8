"""Numbers computed against private data: they stay on the private side, and are outside any budget."""
