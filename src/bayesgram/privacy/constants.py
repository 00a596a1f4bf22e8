"""Public constants of the mechanisms: units of integers, shares of the budget, bins and sizes.

Everything here is public and fixed before any private text is read. The mechanisms, the kernels
that bound a user's contribution, inference, planning and simulation all import these values, so
that they can't drift apart.
"""

import numpy as np

# B: the clip norm in fixed point. One user moves every integer sum by at most this, in L2. Squares
# of it fit in 64 bits, and the discreteness of the noise costs next to nothing of ε
# (docs/promise.md). Follows from these two conditions; no experiment chose it.
UNITS = 1 << 30

# --- The norm histogram of `posterior` ---

# How many of B a user contributes to each of the three parts of the histogram: to the number of
# users in their bin, to the number of n-grams written there, and to the public source that they
# write like. Their squares add up to no more than B². Chosen by hand; benchmarks/clip_norms.py
# judges the clip norms that follow from them.
USER_UNITS = 60 * UNITS // 100
TOTAL_UNITS = 74 * UNITS // 100
SOURCE_UNITS = 28 * UNITS // 100

# Share of the budget (of 1/σ²) that the histogram takes. Chosen by benchmarks/clip_norms.py.
HISTOGRAM_SHARE = 0.03

# Edges of the bins of users' norms (L2, in counts over the shape): half octaves from ¼ to 4096. Not
# measured against other widths.
NORM_EDGES = 2.0 ** np.arange(-2, 12.5, 0.5)
NORM_BINS = NORM_EDGES.size + 1

# --- The clipped mass of `posterior` ---

# Number of words that are asked about in the text that clipping removes. Not measured against other
# numbers.
MAX_CLIPPED_WORDS = 8192

# --- Allowances of a series ---

# What is used of an allowance is an integer: a contribution of norm B to a whole release uses so
# much.
FULL_RELEASE = 1 << 40

MAX_SERIES_RELEASES = 1000  # of one series; a convention

# Edges of the classes of users by the share of the releases in which they are expected to write.
# What allowances leave out is measured by class. Chosen by hand.
ACTIVITY_EDGES = (0.1, 0.25, 0.5, 0.75)
ACTIVITY_CLASSES = len(ACTIVITY_EDGES) + 1

# --- Segments ---

# Share of the squared norm of a user's text in one segment that goes to that segment; the rest goes
# to all people. Not measured against other shares.
SEGMENT_SHARE = 0.5

# --- Discovery ---

# m: the number of candidates that one user contributes at most. Chosen by
# benchmarks/discovery_constants.py.
MAX_CANDIDATES = 100

# w₀: the smallest weight of a candidate, as a part of B. Not measured against other values.
MIN_CANDIDATE_WEIGHT = 0.02
