"""The doors between private counts and a Release: one module a mechanism."""
