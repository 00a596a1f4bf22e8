"""Budgets, composition, the ledger of what was spent, and the one module that draws noise."""
