"""The wall between the private and the released side, as a table of who may import whom."""

import ast
from pathlib import Path

import pytest

import bayesgram

SRC = Path(bayesgram.__file__).parent

LEAVES = {
    "arguments",
    "arrays",
    "notebook",
    "cores",
    "errors",
    "kernels",
    "version",
    "text",
    "files",
    "charts",
    "pages",
}
MAY_IMPORT = {
    "arguments": {"errors"},
    "arrays": set(),
    "cores": set(),
    "errors": set(),
    "version": set(),
    "kernels": {"machine_code"},
    "machine_code": set(),
    "compiling": {"cores", "kernels", "machine_code"},
    "charts": set(),
    "notebook": {"errors"},
    "pages": {"charts"},
    "text": {"arrays", "cores", "errors", "kernels", "files"},  # scratch files
    "files": {"arrays", "cores", "errors", "kernels"},
    "privacy": {"arguments", "arrays", "cores", "errors", "files"},  # a ledger appears whole or not at all
    "public": LEAVES | {"released"},  # what was published is public
    "released": LEAVES | {"privacy"},  # budgets and labels
    "private": LEAVES | {"public"},
    "engines": LEAVES | {"public", "private"},  # the private side, on other machines
    "inference": {
        "arguments",
        "arrays",
        "kernels",
        "errors",
        "version",
        "public",
        "released",
    },  # noisy counts, never a user
    "planning": LEAVES | {"public", "privacy", "released", "inference"},  # made-up people
    "mechanisms": LEAVES | {"public", "private", "privacy", "released", "inference"},
    "audit": LEAVES | {"public", "private", "privacy", "released", "inference", "mechanisms"},
    "experiments": LEAVES | {"planning", "public", "private", "privacy", "released", "mechanisms", "audit"},
    "web": LEAVES | {"public", "privacy", "released", "planning"},  # releases, public text, and plans
    "cli": LEAVES
    | {
        "compiling",
        "web",
        "planning",
        "public",
        "private",
        "engines",
        "privacy",
        "released",
        "inference",
        "mechanisms",
        "audit",
    }
    | {"experiments"},
}


def imported_packages(path):
    """What follows `bayesgram.` in every import, including those inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: use absolute imports"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {f"{name}.__init__".split(".")[1] for name in names if name.split(".")[0] == "bayesgram"}
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


@pytest.mark.parametrize("side", ["public", "released", "web"])
def test_the_released_side_reaches_no_private_code_even_indirectly(side):
    reached, todo = set(), {side}
    while todo:
        name = todo.pop()
        reached.add(name)
        paths = [*SRC.glob(f"{name}.py"), *SRC.glob(f"{name}/**/*.py")]
        todo |= set().union(*(imported_packages(path) for path in paths)) - reached
    assert not reached & {"private", "engines", "mechanisms", "audit", "experiments", "cli"}
