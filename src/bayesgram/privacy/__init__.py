"""Budgets, what releases cost together, the ledger that remembers it, and the one file that draws noise."""
