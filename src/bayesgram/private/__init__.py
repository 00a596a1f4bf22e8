"""Raw user data lives here and nowhere else.

Mechanisms may read it; the released side may not (tests/test_boundary.py checks that).
"""
