"""The paper's experiments: one module a figure or table, over shared code. Nothing here is for publication."""
