"""Budgets and noise."""
