"""What is built can be used without a checkout: a wheel, in an environment of its own, in an empty
folder.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command, env=ENVIRONMENT, **options):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=env, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bayesgram(tmp_path_factory):
    """The command of a wheel that was built from an sdist; what it depends on is that of this
    environment.

    `make wheel` names one that was installed with its dependencies into an empty environment.
    """
    if "BAYESGRAM_WHEEL" in os.environ:
        return Path(os.environ["BAYESGRAM_WHEEL"])
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    run("cp", "-r", ROOT / "src", ROOT / "docs", source)
    run("find", source, "-name", "__pycache__", "-prune", "-exec", "rm", "-r", "{}", "+")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source)
    assert len(list((folder / "dist").glob("*.tar.gz"))) == 1
    (wheel,) = (folder / "dist").glob("*.whl")
    venv.create(folder / "environment", with_pip=False)
    python = folder / "environment" / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
        "--quiet",
        wheel,
    )
    (installed,) = (folder / "environment").glob("lib/python*/site-packages")
    (installed / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    take_kernels(installed / "bayesgram")
    return folder / "environment" / "bin" / "bayesgram"


def take_kernels(installed):
    """Kernels that are compiled already are not compiled again: what was installed is as old as its
    source.
    """
    for source in (ROOT / "src" / "bayesgram").rglob("*"):
        target = installed / source.relative_to(ROOT / "src" / "bayesgram")
        if source.suffix == ".py":
            os.utime(target, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
        elif source.suffix in {".nbi", ".nbc"}:
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(source.read_bytes())


def test_the_demo_the_report_and_the_page_work_from_a_wheel(bayesgram, tmp_path):
    run(bayesgram, "demo", "--users", 100, "--sentences", 200, "-o", "demo", cwd=tmp_path)
    assert (tmp_path / "demo" / "comparison.svg").stat().st_size > 1000
    release = next(
        path
        for path in sorted((tmp_path / "demo" / "releases").iterdir())
        if "posterior" in path.name
    )
    run(bayesgram, "report", release, "-o", "report.html", cwd=tmp_path)
    assert "PROVED" in (tmp_path / "report.html").read_text(encoding="utf-8")
    command = [str(bayesgram), "serve", str(release), "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            address = re.fullmatch(
                r"The page is at (http://127\.0\.0\.1:\d+/)\n", server.stdout.readline()
            )[1]
            with urllib.request.urlopen(address, timeout=60) as page:
                assert "Bayesgram" in page.read().decode()
        finally:
            server.terminate()


def test_pages_are_shown_from_a_wheel(bayesgram, tmp_path):
    shown = run(bayesgram, "docs", "ledger", cwd=tmp_path)
    assert shown == (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    listed = json.loads(run(bayesgram, "docs", "--json", cwd=tmp_path))["pages"]
    assert {page["topic"] for page in listed} == {
        path.stem for path in (ROOT / "docs").rglob("*.md")
    }


LOCK_FILES = {
    "requirements.lock": ["dependencies", "dev"],
    "requirements/run.lock": ["dependencies"],
    "requirements/spark.lock": ["dependencies", "spark"],
    "requirements/kenlm.lock": ["kenlm"],
}


@pytest.mark.parametrize("file", LOCK_FILES)
def test_a_lock_file_has_all_that_is_needed_with_hashes(file):
    """Of every package a version that pyproject.toml allows, with hashes, and from no other index."""
    text = (ROOT / file).read_text(encoding="utf-8")
    entries = [entry for entry in re.split(r"\n(?=[\w#])", text) if not entry.startswith("#")]
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    locked = {}
    for entry in entries:
        name, version = re.match(r"([\w.-]+)==([^ ]+)", entry).groups()
        locked.setdefault(name, []).append(version)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"dependencies": project["dependencies"], **project["optional-dependencies"]}
    for line in (line for group in LOCK_FILES[file] for line in groups[group]):
        wanted = Requirement(line)
        versions = locked[wanted.name.lower()]
        assert all(wanted.specifier.contains(version) for version in versions), line


def test_what_is_locked_twice_has_one_version():
    pins = {}
    for file in LOCK_FILES:
        text = (ROOT / file).read_text(encoding="utf-8")
        for name, rest in re.findall(r"^([\w.-]+)==(.+?) \\$", text, re.MULTILINE):
            pins.setdefault(name, {}).setdefault(file, set()).add(rest.split()[0])
    for name, versions in pins.items():
        for file, found in versions.items():
            if file != "requirements.lock" and "requirements.lock" in versions:
                assert found <= versions["requirements.lock"], name
