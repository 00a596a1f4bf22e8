"""Generated data, the demo, and what is drawn from them."""
