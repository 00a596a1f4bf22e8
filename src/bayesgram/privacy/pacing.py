"""Pacing: how much of an allowance a user of a series may use in one release.

What a user may use follows from that user's own past and from public settings alone. Mechanisms
call this with what users have used, which is private (`private.allowances`); plans call it with
made-up people.
"""

import numpy as np

from bayesgram.arrays import Floats, Ids, Integers
from bayesgram.privacy.constants import ACTIVITY_EDGES, FULL_RELEASE

# Somebody of whom nothing is known yet is expected in this share of the releases to come, and that
# weighs as much as so many releases. The first releases can be generous: what a user uses too much
# there is taken off the later ones. Chosen by `benchmarks/series.py pacing`.
PRIOR_ACTIVITY = 0.1
PRIOR_RELEASES = 0.5


def pace(
    used: Integers, active: Ids, *, number: int, releases: int, full_releases: int
) -> Integers:
    """Return how much each user may use in one release, in units of which a full one is 2⁴⁰.

    A user who has been in some share of the releases is expected in the same share of those to
    come, and to use as much in each of them as so far. An even share of what is left is kept for
    each, or what is expected if that is less. So people who write often are scaled down early,
    instead of being left out late, and somebody who mostly writes little may write much at times.

    Args:
        used: What each user has used so far.
        active: In how many releases each user has been.
        number: The number of this release, from 1.
        releases: W, the number of releases of the series.
        full_releases: k.

    >>> new, often, little, seldom = [0, 0], [4 * FULL_RELEASE, 26], [FULL_RELEASE, 26], [1, 2]
    >>> used, active = np.array([new, often, little, seldom]).T
    >>> pace(used, active, number=27, releases=52, full_releases=8) / FULL_RELEASE
    array([1.        , 0.15..., 1.        , 1.        ])
    """
    left = np.maximum(full_releases * FULL_RELEASE - used, 0)
    to_come = expected_activity(active, number) * max(releases - number, 0)
    even_share = left / (1 + to_come)
    expected_use = (used + FULL_RELEASE) / (active + 1.0)
    kept = to_come * np.minimum(even_share, expected_use)
    allowed = np.clip(left - kept, 0, FULL_RELEASE)
    # A float may be rounded up; nobody may use more than is left.
    paced: Integers = np.minimum(allowed.astype(np.int64), left)
    return paced


def expected_activity(active: Ids, number: int) -> Floats:
    """Return the share of the releases to come in which each user is expected.

    Args:
        active: In how many releases each user has been.
        number: The number of this release, from 1.

    >>> expected_activity(np.array([0, 0, 25]), 26).round(3)
    array([0.002, 0.002, 0.982])
    """
    activity = (active + PRIOR_ACTIVITY * PRIOR_RELEASES) / (number - 1 + PRIOR_RELEASES)
    capped: Floats = np.minimum(activity, 1.0)
    return capped


def activity_classes(active: Ids, number: int) -> Ids:
    """Return the class of each user by the share of the releases in which they are expected.

    Args:
        active: In how many releases each user has been.
        number: The number of this release, from 1.

    >>> activity_classes(np.array([0, 5, 12, 25]), 26).tolist()
    [0, 1, 2, 4]
    """
    classes = np.searchsorted(ACTIVITY_EDGES, expected_activity(active, number) - 1e-9)
    return classes.astype(np.int32)
