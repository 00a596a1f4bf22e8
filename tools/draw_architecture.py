"""The picture and the table of docs/architecture.md, from the imports of the sources.

    python tools/draw_architecture.py

In:  src/bayesgram, where a folder is a room and its docstring says what is in it.   Out:
docs/images/architecture.svg and the rooms of docs/architecture.md. An arrow is an import; those
that other arrows lead to anyway are left out, but for those that have a label. Where a room stands
is said here; what leads where is read.
"""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "bayesgram"
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"
ROOMS = re.compile(
    r"(?<=<!-- rooms: made by tools/draw_architecture.py -->\n).*?(?=<!-- end of rooms -->)",
    re.DOTALL,
)

WIDTH, HEIGHT, WALL = 960, 740, 330
BOX = (128, 44)
PRIVATE, BOTH, OPEN, COMMON = "private", "both", "open", "common"
PLACES: dict[str, tuple[int, int, str]] = {  # the middle of each room, and its side
    "cli": (330, 80, BOTH),
    "experiments": (330, 175, BOTH),
    "audit": (330, 265, BOTH),
    "mechanisms": (330, 360, BOTH),
    "engines": (100, 300, PRIVATE),
    "private": (100, 460, PRIVATE),
    "web": (860, 165, OPEN),
    "planning": (700, 265, OPEN),
    "inference": (610, 370, OPEN),
    "public": (470, 510, OPEN),
    "released": (770, 470, OPEN),
    "privacy": (860, 590, OPEN),
    "text": (480, 605, COMMON),
    "files": (200, 670, COMMON),
}
FLOWS: dict[
    tuple[str, str], tuple[str, ...]
] = {  # names that are imported: what a room takes from another
    ("cli", "engines"): ("count_of",),
    ("cli", "experiments"): ("Population",),
    ("cli", "web"): ("build",),
    ("experiments", "audit"): ("kl_divergence",),
    ("experiments", "planning"): ("Plan",),
    ("audit", "mechanisms"): ("Mechanism",),
    ("engines", "private"): ("PrivateCounts",),
    ("mechanisms", "private"): ("PrivateCounts", "clipped_sum"),
    ("mechanisms", "inference"): ("infer_orders",),
    ("mechanisms", "privacy"): ("Ledger", "NoiseSource"),
    ("mechanisms", "released"): ("Release", "Card"),
    ("planning", "inference"): ("Measured", "infer"),
    ("web", "planning"): ("Planner",),
    ("web", "released"): ("Release",),
    ("private", "public"): ("Vocabulary",),
    ("private", "files"): ("Records",),
    ("inference", "public"): ("Vocabulary",),
    ("public", "released"): ("LanguageModel",),
    ("released", "privacy"): ("Guarantee",),
    ("released", "text"): ("Tokenizer",),
    ("text", "files"): ("SpillBuckets",),
    ("privacy", "files"): ("write_file_atomically",),
}
ALONG = {  # where a label stands on its arrow, where the middle won't do
    ("mechanisms", "released"): 0.72,
    ("mechanisms", "privacy"): 0.72,
    ("inference", "public"): 0.78,
    ("private", "public"): 0.42,
    ("privacy", "files"): 0.3,
}
STYLE = """
svg { font: 15px system-ui, sans-serif }
.paper { fill: #fff } text { fill: #1d2127 } .dim { fill: #5d6470; font-size: 14px } .name { font-weight: 600 }
.flow { font-size: 13px; fill: #3a4049; paint-order: stroke; stroke: #fff; stroke-width: 4px; stroke-linejoin: round }
.room { stroke: #8a919c; fill: #f4f5f7 } .private { fill: #f8dfe3; stroke: #a8324a }
.open { fill: #d9f0e6; stroke: #1b7f5c }
.both { fill: #fbeacb; stroke: #a05f00 } .line { stroke: #7c8490; fill: none } .head { fill: #7c8490 }
.wall { stroke: #a8324a; stroke-width: 3; stroke-dasharray: 9 5 } .side { fill: #a8324a; font-weight: 600 }
@media (prefers-color-scheme: dark) {
.paper { fill: #16181c } text { fill: #e8eaee } .dim { fill: #a3aab6 } .flow { fill: #c9ced6; stroke: #16181c }
.room { stroke: #737b87; fill: #22252b } .private { fill: #47222b; stroke: #ec7f93 }
.open { fill: #173c30; stroke: #4cc39a }
.both { fill: #463415; stroke: #e0a040 } .line { stroke: #8f97a3 } .head { fill: #8f97a3 }
.wall { stroke: #ec7f93 } .side { fill: #ec7f93 } }
"""

HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path class="head" d="M0 0 8 4 0 8z"/></marker>'
)
NOTE = "An arrow is an import; beside it, what is taken. None begins right of the wall and ends left of it."

Edge = tuple[str, str]


@cache
def rooms() -> dict[str, str]:
    """Every folder, and the first sentence of its docstring."""
    found = {}
    for folder in sorted(path.parent for path in SRC.glob("*/__init__.py")):
        told = (
            ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        )
        found[folder.name] = " ".join(told.split("\n\n")[0].split())
    return found


@cache
def imports() -> dict[Edge, set[str]]:
    """What each folder imports from each other one, by name.

    Also what is imported inside a function.
    """
    found: dict[Edge, set[str]] = {}
    for room in rooms():
        for path in (SRC / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                    "bayesgram."
                ):
                    continue
                other = str(node.module).split(".")[1]
                if other in rooms() and other != room:
                    found.setdefault((room, other), set()).update(
                        alias.name for alias in node.names
                    )
    return found


def needed(edges: set[Edge]) -> set[Edge]:
    """Without those that a longer way leads along.

    Two rooms that import each other would be an error.
    """
    return {
        (a, b)
        for a, b in edges
        if not any(b in _reached(c, edges) for x, c in edges if x == a and c != b)
    }


def _reached(room: str, edges: set[Edge]) -> set[str]:
    reached: set[str] = set()
    todo = {room}
    while todo:
        here = todo.pop()
        todo |= {b for a, b in edges if a == here} - reached
        reached |= {b for a, b in edges if a == here}
    if room in reached:
        raise SystemExit(f"{room}: imports itself, by way of others.")
    return reached


def picture() -> str:
    """The rooms, what leads from one to another, and the wall."""
    found = imports()
    drawn = sorted(needed(set(found)) | set(FLOWS))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            "<title>The folders of Bayesgram and what they import</title>",
            f"<style>{STYLE}</style>",
            f"<defs>{HEAD}</defs>",
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
            *_wall(),
            *(_arrow(edge) for edge in drawn),
            *(_room(name, *place) for name, place in PLACES.items()),
            *(_label(edge) for edge in drawn if edge in FLOWS),
            "</svg>\n",
        ]
    )


def _wall() -> list[str]:
    return [
        f'<line class="wall" x1="{WALL}" x2="{WALL}" y1="28" y2="560"/>',
        f'<text class="side" x="{WALL - 12}" y="40" text-anchor="end">sees people</text>',
        f'<text class="side" x="{WALL + 12}" y="40">never sees a user</text>',
        f'<text class="dim" x="20" y="{HEIGHT - 18}">{NOTE}</text>',
    ]


def _room(name: str, x: int, y: int, side: str) -> str:
    width, height = BOX
    corner = f'x="{x - width // 2}" y="{y - height // 2}"'
    return (
        f'<rect class="room {side}" {corner} width="{width}" height="{height}" rx="6"/>'
        f'<text class="name" x="{x}" y="{y + 5}" text-anchor="middle">{name}</text>'
    )


def _ends(edge: Edge) -> tuple[float, float, float, float]:
    """Where an arrow leaves one room and reaches the other."""
    (x1, y1, _), (x2, y2, _) = (PLACES[room] for room in edge)
    return (*_border(x1, y1, x2, y2), *_border(x2, y2, x1, y1))


def _border(x: float, y: float, to_x: float, to_y: float) -> tuple[float, float]:
    """Where the line from a room's middle leaves it."""
    run, rise = to_x - x, to_y - y
    part = min(BOX[0] / 2 / abs(run) if run else 9.0, BOX[1] / 2 / abs(rise) if rise else 9.0)
    return round(x + part * run, 1), round(y + part * rise, 1)


def _arrow(edge: Edge) -> str:
    x1, y1, x2, y2 = _ends(edge)
    return f'<line class="line" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#head)"/>'


def _label(edge: Edge) -> str:
    x1, y1, x2, y2 = _ends(edge)
    words, part = ", ".join(FLOWS[edge]), ALONG.get(edge, 0.5)
    x, y = x1 + part * (x2 - x1), y1 + part * (y2 - y1) + 4
    return f'<text class="flow" x="{x:.0f}" y="{y:.0f}" text-anchor="middle">{words}</text>'


def table() -> str:
    """A row for each room, from the ground up: what is in it, and what it imports."""
    found = imports()
    rows = [
        f"| `{room}` | {told} | {', '.join(f'`{b}`' for a, b in sorted(found) if a == room) or 'nothing'} |"
        for room, told in ((room, rooms()[room]) for room in reversed(PLACES))
    ]
    return "\n".join(["", "| room | what is in it | imports |", "|---|---|---|", *rows, "", ""])


def main() -> None:
    """Write both."""
    PICTURE.write_text(picture(), encoding="utf-8")
    PAGE.write_text(
        ROOMS.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
