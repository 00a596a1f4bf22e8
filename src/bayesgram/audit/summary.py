"""The private numbers that a report shows when it is asked to: KL of each release by order, and what audits found.

In:  private counts and releases; audit folders.   Out: what `released.report` draws. Every number here is a disclosure.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayesgram.arrays import Floats
from bayesgram.audit.pictures import CLAIM, allowed_misses
from bayesgram.audit.report import CONTENTS, FORMAT
from bayesgram.audit.utility import kl_divergence, totals_for
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.files.formats import check_format, read_json
from bayesgram.privacy.budget import MAX_EPSILON
from bayesgram.private.counts import SegmentedCounts
from bayesgram.private.over_users import PrivateCounts
from bayesgram.released.changes_view import printable
from bayesgram.released.drawings import Trace
from bayesgram.released.release import Release
from bayesgram.released.report_private import Attacks, Score
from bayesgram.text.ngrams import distinct_orders

COLOURS = ("bad", "half")
FINDING = ("attack", "neighbour", "caught", "sentence")


def scores(
    counts: PrivateCounts | SegmentedCounts, releases: Sequence[tuple[str, Release]], public: Floats | None
) -> list[Score]:
    """KL of public text, where it is known, and of every release, each order by itself; orders nobody wrote are out.

    A release of a segment is judged by the people of that segment, and is left out where there are none.
    """
    everybody, orders = totals_for(counts), releases[0][1].orders
    written = [totals_for(counts, release) for _, release in releases]
    present = [order for order in distinct_orders(orders) if everybody[orders == order].any()]
    if not present:
        raise BayesgramError("the private counts are empty: there is nothing to compare with; leave `against` out.")
    found: list[Score] = []
    for order in present:
        rows = orders == order
        if public is not None:
            nobody = ("public text alone", "no private data", "PROVED", 0.0, 0.0)
            found.append(Score(*nobody, order, _finite(kl_divergence(everybody[rows], public[rows]))))
        for (name, release), totals in zip(releases, written, strict=True):
            if totals[rows].any():
                card, kl = release.card, kl_divergence(totals[rows], release.probabilities[rows])
                told = (printable(name), card.mechanism, card.guarantee.name, card.epsilon, card.delta)
                found.append(Score(*told, order, _finite(kl)))
    return found


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None


def load_attacks(path: Path) -> Attacks:
    """What an audit folder says."""
    file = path / CONTENTS[0]
    if not file.is_file():
        raise UsageError(f"{path}: not an audit folder (no {file.name}); make one with `bayesgram audit … -o FOLDER`.")
    try:
        document = read_json(file)
        check_format(path, "an audit", document.get("format", 1), FORMAT)  # version 0.1 wrote no number
        return Attacks(
            name=printable(str(path)),
            mechanism=str(document["mechanism"]),
            guarantee=str(document["guarantee"]),
            epsilon=_claimed(document["epsilon"], MAX_EPSILON),
            delta=_claimed(document["delta"], 1.0),
            verdict=str(document["verdict"]),
            caught=bool(document["caught"]),
            findings=[{name: item[name] for name in FINDING} for item in document["findings"]],
            traces=_traces(document),
        )
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise BayesgramError(f"{path}: the audit is damaged; audit again.") from None


def _claimed(value: object, most: float) -> float | None:
    """A number of the claim, where there is one."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError("not a number that can be claimed")
    return float(value)


def _trace(name: str, curve: dict[str, Any], colour: str) -> Trace:
    """A curve of pairs of rates."""
    alarms, misses = (list(map(float, curve[rate])) for rate in ("false_alarms", "misses"))
    if len(alarms) != len(misses) or not all(0 <= rate <= 1 for rate in alarms + misses):
        raise ValueError("not a trade-off")
    return Trace(name, alarms, misses, colour)


def _traces(document: dict[str, Any]) -> list[Trace]:
    """The curves that the audit kept, and the edge of what its claim allows."""
    curves = document["trade_offs"].items()
    traces = [_trace(name, curve, colour) for (name, curve), colour in zip(curves, COLOURS, strict=False)]
    if not traces or document["epsilon"] is None:
        return []
    alarms = np.linspace(0, 1, 201)
    allowed = allowed_misses(alarms, float(document["epsilon"]), float(document["delta"]))
    return [*traces, Trace(CLAIM, alarms.tolist(), allowed.tolist(), "ink")]
