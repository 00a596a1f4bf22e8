"""One page about releases for a privacy officer, a product manager or a curious engineer.

In:  releases, public text's distribution where it is known, and private numbers only if somebody hands them over.
Out: HTML that stands alone (report.html beside this file is its template). Computes from releases and public numbers;
does not read private data, and stamps what was computed from it. Jinja escapes every string.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from importlib.resources import files
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import DictLoader, Environment, FileSystemBytecodeCache, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from bayesgram.pages import head
from bayesgram.released import drawings
from bayesgram.released.changes_view import ChangesView, printable
from bayesgram.released.comparison import Comparison
from bayesgram.released.drawings import percent
from bayesgram.released.report_private import PrivatePart
from bayesgram.released.report_views import DiscoveryView, ReleaseView, plain_number
from bayesgram.released.verdict import CuratorStatements, verdict
from bayesgram.version import VERSION

TEMPLATE = "report.html"
NOTHING_SAID = CuratorStatements()
SQUARE = ("false alarms: says “in” of a user who is not", "misses: says “out” of a user who is in")


class _Compiled(FileSystemBytecodeCache):
    """The template compiled, where Python keeps compiled modules, if that may be written: 0.05 s a page less."""

    def __init__(self) -> None:
        super().__init__(str(Path(cache_from_source(__file__)).parent), "report-%s.cache")

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep it, as Python would."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)


def page(
    releases: Sequence[ReleaseView],
    private: PrivatePart | None = None,
    discoveries: Sequence[DiscoveryView] = (),
    changes: Comparison | None = None,
    *,
    curator: CuratorStatements = NOTHING_SAID,
    day: date | None = None,
) -> str:
    """The whole document; `day` is when it is made, today unless said otherwise."""
    environment = Environment(
        loader=DictLoader({TEMPLATE: files("bayesgram.released").joinpath(TEMPLATE).read_text("utf-8")}),
        bytecode_cache=_Compiled(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": plain_number, "probability": _probability, "percent": percent}
    template = environment.get_template(TEMPLATE)
    title = "PRIVATE – release report" if private else "Release report"
    audits = private.audits if private else []
    unmatched_audits = [audit for audit in audits if not any(audit.fits(item.card) for item in releases)]
    return template.render(
        head=Markup(head(title)),  # noqa: S704 - ours, without a string from outside
        releases=releases,
        discoveries=discoveries,
        private=private,
        changes=None if changes is None else ChangesView(changes),
        version=VERSION,
        verdict=verdict(
            [(item.shown_name, item.card) for item in (*discoveries, *releases)], private=private is not None
        ),
        said=[(name, printable(text)) for name, text in curator.told],
        units=list(dict.fromkeys(item.unit for item in (*discoveries, *releases))),
        day=day or datetime.now(UTC).date(),
        probability=_probability,
        weight=_weight,
        unmatched_audits=unmatched_audits,
        square=lambda traces: drawings.square_drawing("Trade-off of the strongest attacks", traces, SQUARE),
    )


def _weight(value: float) -> str:
    """One digit after the point: noise takes the others."""
    return f"{value:,.1f}"


def _probability(value: float) -> str:
    """Three digits.

    >>> _probability(0.00012345), _probability(0.0)
    ('1.23e-04', '0')
    """
    return f"{value:.2e}" if value else "0"
