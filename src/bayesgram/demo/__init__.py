"""The demo: every step on generated data, with charts."""
