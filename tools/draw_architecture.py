"""Draw the picture and write the table of docs/architecture.md from the imports of the sources.

    python tools/draw_architecture.py

In:  src/bayesgram, where a package's docstring says what is in it.
Out: docs/images/architecture.svg and the table of packages in docs/architecture.md.

An arrow is an import. Imports that a longer way of arrows leads along are left out, unless `FLOWS`
labels them. Where a package stands in the picture is set here (`PLACES`); the imports are read.
"""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "bayesgram"
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"
TABLE = re.compile(
    r"(?<=<!-- packages: made by tools/draw_architecture.py -->\n).*?(?=<!-- end of packages -->)",
    re.DOTALL,
)

WIDTH, HEIGHT = 960, 840
WALL = 330  # the x of the wall between private data and all else
WALL_END = 610
BOX = (128, 44)
PRIVATE, BOTH, OPEN, COMMON = "private", "both", "open", "common"
PLACES: dict[str, tuple[int, int, str]] = {  # the middle of each package's box, and its side
    "cli": (330, 80, BOTH),
    "demo": (330, 165, BOTH),
    "audit": (330, 250, BOTH),
    "paper": (330, 345, BOTH),
    "mechanisms": (330, 450, BOTH),
    "spark": (84, 230, PRIVATE),
    "synthetic": (170, 410, PRIVATE),
    "private": (100, 540, PRIVATE),
    "web": (850, 140, OPEN),
    "reports": (700, 235, OPEN),
    "comparison": (850, 340, OPEN),
    "planning": (600, 335, OPEN),
    "inference": (570, 435, OPEN),
    "public": (450, 560, OPEN),
    "lm": (640, 670, OPEN),
    "releases": (820, 560, OPEN),
    "privacy": (880, 700, OPEN),
    "text": (700, 780, COMMON),
    "io": (240, 780, COMMON),
}
FLOWS: dict[tuple[str, str], tuple[str, ...]] = {  # imported names: what a package takes
    ("audit", "paper"): ("Paper",),
    ("audit", "reports"): ("AuditSummary", "Score"),
    ("cli", "demo"): ("pipeline",),
    ("cli", "spark"): ("load_counts",),
    ("cli", "web"): ("build",),
    ("comparison", "releases"): ("Release",),
    ("demo", "audit"): ("kl_divergence",),
    ("inference", "public"): ("Vocabulary",),
    ("lm", "releases"): ("Release",),
    ("mechanisms", "inference"): ("NoisyCounts",),
    ("mechanisms", "privacy"): ("Ledger", "NoiseSource"),
    ("mechanisms", "private"): ("PrivateCounts", "clipped_sum"),
    ("mechanisms", "releases"): ("Release", "Card"),
    ("paper", "mechanisms"): ("CountsMechanism",),
    ("paper", "synthetic"): ("Crowd",),
    ("planning", "inference"): ("NoisyCounts", "infer"),
    ("privacy", "io"): ("write_file_atomically",),
    ("private", "io"): ("Records",),
    ("private", "public"): ("Vocabulary",),
    ("public", "lm"): ("LanguageModel",),
    ("releases", "privacy"): ("Guarantee",),
    ("releases", "text"): ("Tokenizer",),
    ("reports", "comparison"): ("Comparison",),
    ("reports", "planning"): ("Plan",),
    ("spark", "private"): ("PrivateCounts",),
    ("synthetic", "private"): ("UserCounts",),
    ("text", "io"): ("SpillBuckets",),
    ("web", "reports"): ("ReleaseView",),
}
# Imports against the direction of all others: the paper's experiments use the audit's measures, and
# the audit attacks the paper's mechanism. They are drawn as the second head of the other arrow.
MUTUAL = {("paper", "audit")}
# Where a label stands on its arrow, as a share of its length, where the middle won't do.
LABEL_POSITIONS = {
    ("mechanisms", "releases"): 0.62,
    ("mechanisms", "privacy"): 0.52,
    ("inference", "public"): 0.35,
    ("private", "public"): 0.35,
    ("privacy", "io"): 0.45,
    ("spark", "private"): 0.3,
    ("synthetic", "private"): 0.35,
}
STYLE = """
svg { font: 15px system-ui, sans-serif }
.paper { fill: #fff } text { fill: #1d2127 }
.dim { fill: #5d6470; font-size: 14px } .name { font-weight: 600 }
.flow { font-size: 13px; fill: #3a4049; paint-order: stroke; stroke: #fff; stroke-width: 4px;
stroke-linejoin: round }
.package { stroke: #8a919c; fill: #f4f5f7 } .private { fill: #f8dfe3; stroke: #a8324a }
.open { fill: #d9f0e6; stroke: #1b7f5c }
.both { fill: #fbeacb; stroke: #a05f00 }
.line { stroke: #7c8490; fill: none } .head { fill: #7c8490 }
.wall { stroke: #a8324a; stroke-width: 3; stroke-dasharray: 9 5 }
.side { fill: #a8324a; font-weight: 600 }
@media (prefers-color-scheme: dark) {
.paper { fill: #16181c } text { fill: #e8eaee } .dim { fill: #a3aab6 }
.flow { fill: #c9ced6; stroke: #16181c }
.package { stroke: #737b87; fill: #22252b } .private { fill: #47222b; stroke: #ec7f93 }
.open { fill: #173c30; stroke: #4cc39a }
.both { fill: #463415; stroke: #e0a040 } .line { stroke: #8f97a3 } .head { fill: #8f97a3 }
.wall { stroke: #ec7f93 } .side { fill: #ec7f93 } }
"""

HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
    ' orient="auto-start-reverse"><path class="head" d="M0 0 8 4 0 8z"/></marker>'
)
NOTE = (
    "An arrow is an import, with names that are imported."
    " None begins right of the wall and ends left of it."
)

Edge = tuple[str, str]


@cache
def packages() -> dict[str, str]:
    """Return every package and the first paragraph of its docstring."""
    descriptions = {}
    for file in sorted(SRC.glob("*/__init__.py")):
        docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        descriptions[file.parent.name] = " ".join(docstring.split("\n\n")[0].split())
    return descriptions


@cache
def imports() -> dict[Edge, set[str]]:
    """Return the names that each package imports from each other one, also inside functions."""
    names: dict[Edge, set[str]] = {}
    for package in packages():
        for path in (SRC / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.ImportFrom):
                    continue
                if not (node.module or "").startswith("bayesgram."):
                    continue
                other = str(node.module).split(".")[1]
                if other in packages() and other != package:
                    imported = {alias.name for alias in node.names}
                    names.setdefault((package, other), set()).update(imported)
    return names


def needed_edges(edges: set[Edge]) -> set[Edge]:
    """Return the edges that no longer way leads along.

    Raises:
        SystemExit: If packages import each other and `MUTUAL` does not allow it.
    """
    one_way = edges - MUTUAL
    return {
        (a, b)
        for a, b in one_way
        if not any(b in _reachable(c, one_way) for x, c in one_way if x == a and c != b)
    }


def _reachable(package: str, edges: set[Edge]) -> set[str]:
    reachable: set[str] = set()
    todo = {package}
    while todo:
        current = todo.pop()
        targets = {b for a, b in edges if a == current}
        todo |= targets - reachable
        reachable |= targets
    if package in reachable:
        raise SystemExit(f"{package}: imports itself, by way of others.")
    return reachable


def draw_picture() -> str:
    """Return the SVG picture: the packages, what they import, and the wall."""
    edges = sorted(needed_edges(set(imports())) | set(FLOWS))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            "<title>The packages of Bayesgram and what they import</title>",
            f"<style>{STYLE}</style>",
            f"<defs>{HEAD}</defs>",
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
            *_draw_wall(),
            *(_draw_arrow(edge) for edge in edges),
            *(_draw_package(name, *place) for name, place in PLACES.items()),
            *(_draw_label(edge) for edge in edges if edge in FLOWS),
            "</svg>\n",
        ]
    )


def _draw_wall() -> list[str]:
    return [
        f'<line class="wall" x1="{WALL}" x2="{WALL}" y1="28" y2="{WALL_END}"/>',
        f'<text class="side" x="{WALL - 12}" y="40" text-anchor="end">sees people</text>',
        f'<text class="side" x="{WALL + 12}" y="40">never sees a user</text>',
        f'<text class="dim" x="20" y="{HEIGHT - 14}">{NOTE}</text>',
    ]


def _draw_package(name: str, x: int, y: int, side: str) -> str:
    width, height = BOX
    corner = f'x="{x - width // 2}" y="{y - height // 2}"'
    return (
        f'<rect class="package {side}" {corner} width="{width}" height="{height}" rx="6"/>'
        f'<text class="name" x="{x}" y="{y + 5}" text-anchor="middle">{name}</text>'
    )


def _arrow_ends(edge: Edge) -> tuple[float, float, float, float]:
    """Return where an arrow leaves one box and reaches the other."""
    (x1, y1, _), (x2, y2, _) = (PLACES[package] for package in edge)
    return (*_box_border(x1, y1, x2, y2), *_box_border(x2, y2, x1, y1))


def _box_border(x: float, y: float, to_x: float, to_y: float) -> tuple[float, float]:
    """Return where the line from a box's middle leaves it."""
    run, rise = to_x - x, to_y - y
    part = min(BOX[0] / 2 / abs(run) if run else 9.0, BOX[1] / 2 / abs(rise) if rise else 9.0)
    return round(x + part * run, 1), round(y + part * rise, 1)


def _draw_arrow(edge: Edge) -> str:
    x1, y1, x2, y2 = _arrow_ends(edge)
    heads = 'marker-end="url(#head)"'
    if edge[::-1] in MUTUAL:
        heads += ' marker-start="url(#head)"'
    return f'<line class="line" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {heads}/>'


def _draw_label(edge: Edge) -> str:
    x1, y1, x2, y2 = _arrow_ends(edge)
    names = ", ".join(FLOWS[edge])
    part = LABEL_POSITIONS.get(edge, 0.5)
    x = x1 + part * (x2 - x1)
    y = y1 + part * (y2 - y1) + 4
    return f'<text class="flow" x="{x:.0f}" y="{y:.0f}" text-anchor="middle">{names}</text>'


def write_table() -> str:
    """Return the table: a row for each package, from the ground up."""
    rows = []
    for package in reversed(PLACES):
        imported = ", ".join(f"`{b}`" for a, b in sorted(imports()) if a == package)
        rows.append(f"| `{package}` | {packages()[package]} | {imported or 'nothing'} |")
    return "\n".join(["", "| package | what is in it | imports |", "|---|---|---|", *rows, "", ""])


def main() -> None:
    """Write the picture and the table."""
    PICTURE.write_text(draw_picture(), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda _: write_table(), page), encoding="utf-8")


if __name__ == "__main__":
    main()
