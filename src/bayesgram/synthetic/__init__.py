"""Generated people and public text, for the demo, the paper's experiments and tests."""
