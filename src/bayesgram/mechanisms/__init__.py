"""Mechanisms: what reads private counts or text, draws noise, and returns what may be published."""
