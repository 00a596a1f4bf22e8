"""An OpenDP whose noise does not have its law is refused, before anything is spent or written."""

import os
import tomllib
from importlib import metadata
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.mechanisms.base import Randomness
from bayesgram.mechanisms.discovery import discover
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.mechanisms.publish import dry_run, release
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Budget
from bayesgram.privacy.ledger import Ledger
from bayesgram.privacy.noise import OLDEST_OPENDP, ExactNoise, check_opendp, opendp
from bayesgram.private.counts import count
from bayesgram.private.counts_io import save_counts
from helpers import commands, discovery_data
from helpers.discovery_data import BUDGET, MANY_PEOPLE

pytestmark = pytest.mark.slow

NEXT = "nothing was released or spent. Run: pip install 'opendp>=0.14.2'"
BIASED = f"draws noise that does not have the law it states (opendp#2638), so that no guarantee would hold; {NEXT}"
UNKNOWN = f"is not a released version, so that the law of its noise is not known; {NEXT}"


@pytest.fixture
def installed(monkeypatch):
    """Says which OpenDP is installed; None: none."""

    def of_version(version):
        def answer(name):
            assert name == "opendp"
            if version is None:
                raise metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(metadata, "version", answer)

    return of_version


def test_what_is_installed_will_do():
    check_opendp()


def test_the_package_asks_for_what_a_run_asks_for():
    project = tomllib.loads(
        (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]
    oldest = ".".join(map(str, OLDEST_OPENDP))
    assert [name for name in project["dependencies"] if name.startswith("opendp")] == [
        f"opendp>={oldest}"
    ]


@pytest.mark.parametrize(
    "version",
    ["0.14.2", "0.14.3", "0.15.0", "0.16.0", "1.0.0", "0.100.0", "0.14.2.post1", "0.16.0+cpu"],
)
def test_versions_that_will_do(version, installed):
    installed(version)
    check_opendp()
    ExactNoise()


@pytest.mark.parametrize(
    "version",
    ["0.14.1", "0.14.0", "0.12.0", "0.9.2", "0.2.10", "0.0.0", "0.14.1.post3", "0.14.1+local"],
)
def test_versions_with_a_biased_sampler(version, installed):
    installed(version)
    for use in (check_opendp, ExactNoise, opendp, lambda: Randomness.from_seed(None)):
        with pytest.raises(BayesgramError) as caught:
            use()
        assert str(caught.value) == f"OpenDP {version} {BIASED}"
        assert not isinstance(caught.value, UsageError)  # the environment is at fault: exit code 1


@pytest.mark.parametrize(
    "version",
    [
        "0.14.2.dev20260301001",
        "0.15.0-nightly",
        "0.16.0a20261025001",
        "0.14.2rc1",
        "0.15",
        "",
        "٠.١٤.٢",
    ],
)
def test_versions_of_which_nothing_is_known(version, installed):
    installed(version)
    with pytest.raises(BayesgramError) as caught:
        ExactNoise()
    assert str(caught.value) == f"OpenDP {version} {UNKNOWN}"


def test_without_opendp(installed):
    installed(None)
    with pytest.raises(BayesgramError) as caught:
        ExactNoise()
    assert str(caught.value) == f"OpenDP, which draws the noise, is not installed; {NEXT}"


def test_a_seeded_run_needs_none(installed):
    installed("0.14.1")
    assert Randomness.from_seed(1).noise.seeded


@pytest.mark.parametrize(
    "mechanism", [Posterior(), Laplace()], ids=lambda mechanism: mechanism.name
)
def test_a_release_is_refused_before_anything_is_spent(mechanism, installed, tmp_path):
    _, vocabulary = next(iter(discovery_data.make_vocabulary().by_order))
    counts = count(discovery_data.make_table(MANY_PEOPLE), vocabulary)
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1.0, 1e-6))
    before = ledger.path.read_bytes()
    installed("0.14.1")
    for run, where in ((release, {"output": tmp_path / "out"}), (dry_run, {})):
        with pytest.raises(BayesgramError) as caught:
            run(counts, vocabulary, mechanism, Budget(0.1, 1e-7), ledger=ledger, **where)
        assert str(caught.value) == f"OpenDP 0.14.1 {BIASED}"
    assert ledger.read().spends == []
    assert ledger.path.read_bytes() == before


def test_a_ledger_reserves_nothing_for_noise_that_cannot_be_drawn(installed, tmp_path):
    """Also for a mechanism that would ask for its noise after the reservation."""
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=Budget(1.0, 1e-6))
    before = ledger.path.read_bytes()
    installed("0.14.1")
    with pytest.raises(BayesgramError) as caught:
        ledger.reserve(Spend.gaussian(50.0, total_variation=0.0), {"mechanism": "posterior"})
    assert str(caught.value) == f"OpenDP 0.14.1 {BIASED}"
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("rounds", [1, 3])
def test_so_is_a_discovery(rounds, installed, tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", population="p", budget=BUDGET)
    before = ledger.path.read_bytes()
    installed("0.14.1")
    with pytest.raises(BayesgramError) as caught:
        out = tmp_path / "out"
        discover(
            discovery_data.make_table(MANY_PEOPLE),
            discovery_data.make_vocabulary(),
            BUDGET,
            rounds=rounds,
            ledger=ledger,
            output=out,
        )
    assert str(caught.value) == f"OpenDP 0.14.1 {BIASED}"
    assert ledger.path.read_bytes() == before


def test_the_commands_fail_and_leave_everything_as_it_was(tmp_path):
    """With the metadata of an old OpenDP first on the path, as pip would have left it."""
    vocabulary = discovery_data.make_vocabulary()
    old = tmp_path / "site" / "opendp-0.14.1.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: opendp\nVersion: 0.14.1\n")
    work = tmp_path / "work"
    work.mkdir()
    vocabulary.save(work / "vocab.parquet")
    save_counts(
        count(discovery_data.make_table(MANY_PEOPLE), vocabulary), vocabulary, work / "counts"
    )
    pq.write_table(discovery_data.make_table(MANY_PEOPLE), work / "private.parquet")
    Ledger.create(work / "a.ledger", population="p", budget=BUDGET)
    path = os.pathsep.join(filter(None, [str(old.parent), os.environ.get("PYTHONPATH")]))
    before = {
        entry.name: entry.read_bytes() for entry in sorted(work.rglob("*")) if entry.is_file()
    }
    common = ("--vocab", "vocab.parquet", "--epsilon", 0.5, "--ledger", "a.ledger", "-o", "out")
    for command in (("release", "counts"), ("discover", "private.parquet")):
        done = commands.bayesgram(*command, *common, cwd=work, PYTHONPATH=path, COLUMNS="1000")
        assert done.returncode == 1, done.stderr
        assert done.stderr == f"error: OpenDP 0.14.1 {BIASED}\n"
        assert not done.stdout
        assert before == {
            entry.name: entry.read_bytes() for entry in sorted(work.rglob("*")) if entry.is_file()
        }
