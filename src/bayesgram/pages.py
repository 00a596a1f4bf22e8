"""The look of every HTML page: one stylesheet and one head.

A page is one file that opens offline, prints, and follows dark mode. It loads nothing: its own
policy forbids that, and scripts too, whatever strings stand in it. `reports.report` and
`paper.results_page` write pages; the page of `bayesgram serve` shares the stylesheet.
"""

from bayesgram import charts

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# What an ε is worth, as a badge. Text on PROVED is white, on the others dark, for contrast.
BADGES = "".join(
    f".badge.{name} {{ background: {charts.COLOURS[name][0]};"
    f" color: {'#fff' if name == 'PROVED' else '#14171b'} }}\n"
    for name in ("PROVED", "EMPIRICAL", "NONE")
)
LIGHT = charts.page_variables()
DARK = charts.page_variables(is_dark=True)
# A backslash joins two lines of this file: the stylesheet has one rule, or a few, on each line.
STYLE = (
    """
:root { color-scheme: light dark; """
    + LIGHT
    + """; --soft: #f4f5f7; --good: #1b7f5c; --half: #a05f00; --bad: #a8324a; --edge: #7d8490;
  --accent: #2a62b8 }
@media (prefers-color-scheme: dark) { :root { """
    + DARK
    + """; --soft: #1f2227; --good: #4cc39a; --half: #e0a040; --bad: #ec7f93; --edge: #737a86;
  --accent: #86b2f2 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1.2rem 4rem; max-width: 60rem; background: var(--paper); \
color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem } h2 { font-size: 1.25rem; margin: 0 }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem }
a { color: inherit } a:focus-visible, .scroll:focus-visible { outline: 2px solid var(--good); \
outline-offset: 2px }
section { border-top: 1px solid var(--line); padding-top: 1.4rem; margin-top: 2rem }
.warning { border-left: 4px solid var(--bad); background: var(--soft); padding: .6rem .9rem }
.dim, figcaption { color: var(--dim); font-size: .92rem }
.verdict { font-weight: 600; overflow-wrap: anywhere } .reproduced { color: var(--good) } \
.partly { color: var(--half) }
.not { color: var(--bad) }
blockquote { margin: .8rem 0; padding-left: .9rem; border-left: 3px solid var(--line); \
color: var(--dim) }
figure { margin: 1rem 0; overflow-x: auto } img { background: #fff; border-radius: 6px; \
max-width: 100%; height: auto;
  border: 1px solid var(--line) }
table { border-collapse: collapse; margin: .6rem 0 1rem; font-size: .92rem; \
font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--dim); padding-bottom: .3rem }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--line); \
white-space: nowrap }
th:first-child, td:first-child { text-align: left } td:first-child { white-space: normal; \
min-width: 9rem }
.scroll { overflow-x: auto }
th { font-weight: 600 } td.words, th.words { text-align: left; white-space: normal; \
min-width: 9rem }
li { margin: .3rem 0 } .mark { display: inline-block; width: 1.4em; font-weight: 700 }
code, pre { font: .92em/1.5 ui-monospace, monospace } bdi { overflow-wrap: anywhere }
pre { background: var(--soft); padding: .7rem .9rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: 11rem 1fr; gap: .5rem 1rem; margin: 1rem 0 }
dt { font-weight: 600 } dd { margin: 0 } dd p { margin: 0 0 .5rem } dd pre { margin: 0 }
dd ul, dd ol { margin: 0; padding-left: 1.2rem }
.grade { display: inline-block; padding: 0 .55rem; border-radius: 1rem; \
border: 1.5px solid var(--bad);
  color: var(--bad); font-size: .85rem; font-weight: 700; vertical-align: .1em }
.badge { display: inline-block; padding: .05rem .6rem; border-radius: 1rem; font-size: .85rem; \
font-weight: 700;
  letter-spacing: .03em; vertical-align: .1em }
"""
    + BADGES
    + """.private { border: 2px solid var(--bad); border-radius: 6px; padding: 1.2rem; \
margin-top: 2rem }
.stamp { color: var(--bad); font-weight: 700; letter-spacing: .04em; text-transform: uppercase; \
margin: 0 0 .4rem }
svg { display: block; width: 100%; min-width: 36rem; height: auto }
"""
    + charts.STYLE
    + """@media (max-width: 40rem) { body { padding: 1.2rem .9rem 3rem } \
dl { grid-template-columns: 1fr; gap: .1rem }
  dd { margin-bottom: .8rem } .private { padding: .9rem } td:first-child { min-width: 7rem }
  th, td { padding: .3rem .4rem } td:has(.badge) { white-space: normal } }
@media (max-width: 34rem) { .less { display: none } }
@media print { :root { color-scheme: light; """
    + LIGHT
    + """; --ink: #000; --dim: #444; --line: #ccc; --soft: #f4f5f7; --good: #1b7f5c; \
--half: #a05f00;
  --bad: #a8324a; --accent: #2a62b8 }
  @page { margin: 16mm 14mm }
  body { max-width: none; padding: 0; font-size: 10.5pt; print-color-adjust: exact; \
-webkit-print-color-adjust: exact }
  figure, tr, dl > *, .stamp { break-inside: avoid } h2, h3 { break-after: avoid } \
details, nav { display: none }
  .scroll, figure { overflow: visible } th, td { padding: .15rem .4rem }
  td:has(.badge) { white-space: normal } td .badge, td .grade { font-size: .9em }
  svg { min-width: 0 } table { font-size: 9pt } }
"""
)


def html_head(title: str) -> str:
    """Return a page from the doctype to the end of the head.

    Args:
        title: The title of the page, already escaped.
    """
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            f"<style>{STYLE}</style></head>",
        ]
    )
