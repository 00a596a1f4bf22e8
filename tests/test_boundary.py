"""The wall between the private and the released side, as a table of who may import whom."""

import ast
from pathlib import Path

import pytest

import bayesgram

SRC = Path(bayesgram.__file__).parent

LEAVES = {
    "arguments",
    "arrays",
    "choices",
    "notebook",
    "cores",
    "errors",
    "system",
    "kernels",
    "version",
    "text",
    "io",
    "charts",
    "pages",
    "manual",
}
MAY_IMPORT = {
    "arguments": {"errors"},
    "arrays": set(),
    "choices": set(),
    "cores": set(),
    "errors": set(),
    "system": set(),
    "version": set(),
    "kernels": set(),
    "charts": set(),
    "notebook": {"errors"},
    "pages": {"charts"},
    "manual": {"errors", "version"},
    "io": {"arrays", "cores", "errors", "kernels", "system", "version"},  # errors name pages
    "text": {"arrays", "choices", "cores", "errors", "kernels", "io"},  # spilled arrays
    "privacy": {
        "arguments",
        "arrays",
        "cores",
        "errors",
        "io",  # a ledger appears whole or not at all
        "notebook",  # and can be looked at
        "system",
        "version",
    },
    "releases": LEAVES | {"privacy"},  # budgets and labels
    "lm": LEAVES | {"privacy", "releases"},
    "public": LEAVES | {"lm", "releases"},  # what was published is public
    "comparison": LEAVES | {"privacy", "releases", "public", "lm"},
    "inference": LEAVES | {"public", "releases", "privacy"},  # noisy counts, never a user
    "planning": LEAVES | {"public", "privacy", "releases", "inference"},  # made-up people
    "reports": LEAVES | {"public", "privacy", "releases", "comparison", "lm", "planning"},
    "web": LEAVES | {"public", "privacy", "releases", "lm", "comparison", "reports", "planning"},
    "private": LEAVES | {"public", "privacy"},
    "spark": LEAVES | {"public", "private"},  # the private side, on other machines
    "mechanisms": LEAVES | {"public", "private", "privacy", "releases", "inference", "lm"},
    "paper": LEAVES
    | {"public", "private", "privacy", "releases", "inference", "mechanisms", "audit", "synthetic"},
    "audit": LEAVES
    | {
        "public",
        "private",
        "privacy",
        "releases",
        "inference",
        "lm",
        "mechanisms",
        "paper",
        "reports",
        "comparison",
    },
    "demo": LEAVES
    | {
        "planning",
        "public",
        "private",
        "privacy",
        "releases",
        "lm",
        "comparison",
        "reports",
        "mechanisms",
    }
    | {"audit", "paper", "synthetic"},
    "synthetic": LEAVES | {"private", "public"},
    "cli": LEAVES
    | {
        "web",
        "planning",
        "public",
        "private",
        "spark",
        "privacy",
        "releases",
        "inference",
        "mechanisms",
        "audit",
    }
    | {"lm", "comparison", "reports", "paper", "demo", "synthetic"},
}
# Of privacy, these two see the public constants of the mechanisms alone: neither noise nor budgets.
ONLY_CONSTANTS = ["inference", "private"]
RELEASED_SIDE = [
    "public",
    "releases",
    "lm",
    "comparison",
    "inference",
    "planning",
    "reports",
    "web",
]


def imported_packages(path):
    """What follows `bayesgram.` in every import, including those inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: use absolute imports"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {
            f"{name}.__init__".split(".")[1] for name in names if name.split(".")[0] == "bayesgram"
        }
    return found


@pytest.mark.parametrize("name", MAY_IMPORT)
def test_stays_on_its_side(name):
    paths = [*SRC.glob(f"{name}.py"), *SRC.glob(f"{name}/**/*.py")]
    assert paths
    for path in paths:
        assert imported_packages(path) <= MAY_IMPORT[name] | {name}, path


def test_every_folder_and_module_is_in_the_table():
    modules = {path.stem for path in SRC.glob("*.py")} - {"__init__", "__main__"}
    folders = {path.name for path in SRC.iterdir() if (path / "__init__.py").exists()}
    assert modules | folders == set(MAY_IMPORT)


@pytest.mark.parametrize("side", RELEASED_SIDE)
def test_the_released_side_reaches_no_private_code_even_indirectly(side):
    reached, todo = set(), {side}
    while todo:
        name = todo.pop()
        reached.add(name)
        paths = [*SRC.glob(f"{name}.py"), *SRC.glob(f"{name}/**/*.py")]
        todo |= set().union(*(imported_packages(path) for path in paths)) - reached
    assert not reached & {
        "private",
        "spark",
        "mechanisms",
        "paper",
        "audit",
        "demo",
        "synthetic",
        "cli",
    }


@pytest.mark.parametrize("name", ONLY_CONSTANTS)
def test_public_constants_are_all_that_is_taken_from_privacy(name):
    for path in SRC.glob(f"{name}/**/*.py"):
        assert names_of_privacy(path.read_text(encoding="utf-8")) <= {
            "bayesgram.privacy.constants"
        }, path


def names_of_privacy(text):
    """The modules of `bayesgram.privacy` that a source imports, however it does."""
    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in {"bayesgram", "bayesgram.privacy"}:
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    return {module for module in modules if f"{module}.".startswith("bayesgram.privacy.")}


@pytest.mark.parametrize(
    "text",
    [
        "import bayesgram.privacy.noise",
        "import bayesgram.privacy.noise as constants",
        "from bayesgram import privacy",
        "from bayesgram.privacy import noise",
        "from bayesgram.privacy.noise import ExactNoise",
        "def late():\n    import bayesgram.privacy.ledger",
    ],
)
def test_every_way_to_import_noise_is_noticed(text):
    assert names_of_privacy(text) - {"bayesgram.privacy.constants"}
    assert names_of_privacy("from bayesgram.privacy.constants import UNITS") == {
        "bayesgram.privacy.constants"
    }
