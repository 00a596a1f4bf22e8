"""The entry for the registry of deployments: its fields, its numbers, and its YAML."""

from datetime import date

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.reports.registry import RegistryFacts, make_entry, to_yaml, total_budget
from helpers.commands import check_output, expect_refusal

FACTS = {
    "name": "Words of the week",
    "data_curators": ["Example Inc."],
    "intended_use": "Next-word suggestions in the keyboard of the app.",
    "data_product_region": "Global",
    "publication_date": "2026-05-31",
    "registry_authors": ["A. Person"],
}
MORE = {
    "data_product_sector": "Technology",
    "data_source_type": "Dynamic",
    "actors": "The operator sees the text.\nThe public sees the release.",
    "justification": "ε = 1 is usual: see the notes of the privacy board.",
    "sources": "https://example.org/words",
}

# The registry's fields, written down from its public schema (July 2026): text, number, list or the
# values that a text may have.
TEXT, NUMBER, LIST = "text", "number", "list"
FIELDS = {
    "basic": {
        "name!": TEXT,
        "data_curators!": LIST,
        "intended_use!": TEXT,
        "data_product_type!": {"Summary statistics", "Machine learning model", "Dataset"},
        "data_product_region!": TEXT,
        "description!": TEXT,
        "publication_date!": TEXT,
        "data_product_sector": {"Technology", "Healthcare", "Education", "Government"},
    },
    "dp_variant": {
        "variant_name": {"Pure DP", "Approximate DP"},
        "data_domain": TEXT,
        "unprotected_quantities": TEXT,
    },
    "privacy_loss": {
        "privacy_unit": TEXT,
        "privacy_unit_details": TEXT,
        "privacy_parameters": {"epsilon": NUMBER, "delta": NUMBER},
        "privacy_parameters_details": TEXT,
    },
    "deployment_model": {
        "model_name": {"Central"},
        "actors": TEXT,
        "release_type": {"One release", "Many releases"},
        "release_type_details": TEXT,
        "data_source_type": {"Static", "Dynamic"},
        "access_type": {"Non-interactive"},
    },
    "accounting": {"post_processing": TEXT, "composition": TEXT},
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": TEXT,
        "mechanisms": TEXT,
        "justification": TEXT,
    },
    "administrative": {"sources": TEXT, "notes": TEXT, "registry_authors!": LIST},
}


def check(values, wanted, place):
    """Refuse a field that the registry does not know, lacks, or takes in another form."""
    known = {name.removesuffix("!"): kind for name, kind in wanted.items()}
    assert set(values) <= set(known), place
    assert {name[:-1] for name in wanted if name.endswith("!")} <= set(values), place
    for name, value in values.items():
        kind = known[name]
        if isinstance(kind, dict):
            check(value, kind, f"{place}/{name}")
        elif isinstance(kind, set):
            assert value in kind, (place, name)
        elif kind == LIST:
            assert value, (place, name)
            assert all(isinstance(text, str) for text in value), (place, name)
        elif kind == NUMBER:
            assert isinstance(value, float | int), (place, name)
            assert value > 0, (place, name)
        else:
            assert isinstance(value, str), (place, name)
            assert value.strip(), (place, name)


def check_entry(entry):
    assert set(entry) == {"url_slug", "status", "tier", "deployment"}
    assert entry["status"] == "Draft"
    assert entry["tier"] in {2, 3}
    check(entry["deployment"], FIELDS, "")
    date.fromisoformat(entry["deployment"]["basic"]["publication_date"])
    return entry["deployment"]


@pytest.fixture(scope="module")
def vocabulary():
    return bg.Vocabulary.from_public(pa.table({"text": ["the red fish swims", "a blue fish"]}))


@pytest.fixture(scope="module")
def counts(vocabulary):
    private = pa.table({"user": range(50), "text": ["the red fish"] * 50})
    return bg.count(private, vocabulary)


@pytest.fixture(scope="module")
def release(counts, vocabulary):
    return bg.release(counts, vocabulary, epsilon=1)


def facts(**more):
    return RegistryFacts.from_values({**FACTS, **more})


def test_the_entry_has_the_fields_of_the_registry(release):
    entry = make_entry([("out", release.card)], facts())
    deployment = check_entry(entry)
    assert entry["tier"] == 2
    assert entry["url_slug"] == "words-of-the-week-example-inc-2026"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1, "delta": 1e-7}
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert "that the release exists" in deployment["dp_variant"]["unprotected_quantities"]
    assert deployment["deployment_model"]["release_type"] == "One release"
    whole = make_entry([("out", release.card)], facts(**MORE))
    assert whole["tier"] == 3
    assert check_entry(whole)["implementation"]["justification"] == MORE["justification"]


def test_yaml_reads_back_as_it_was(release):
    entry = make_entry([("a: b", release.card)], facts(**MORE, notes='"quoted" # and\n- listed'))
    text = to_yaml(entry)
    assert yaml.safe_load(text) == entry


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
        st.one_of(
            st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.just(" ")),
            st.text("a :#-'\"\n|>é{}[]&*!%@`,?\\", max_size=200),
            st.floats(1e-30, 1e30),
            st.integers(0, 10**12),
            st.lists(st.text("ab:# -'\"é", max_size=9), min_size=1),
        ),
        min_size=1,
    )
)
def test_so_does_any_text(values):
    assert yaml.safe_load(to_yaml({"entry": values})) == {"entry": values}


def test_a_pure_release_has_no_delta(counts, vocabulary):
    words = vocabulary.by_order[-1][1]
    private = bg.count(pa.table({"user": range(9), "text": ["the red fish"] * 9}), words)
    card = bg.release(private, words, mechanism=bg.Laplace(), epsilon=0.5).card
    deployment = check_entry(make_entry([("out", card)], facts()))
    assert deployment["dp_variant"]["variant_name"] == "Pure DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.5}


def test_several_releases_add_up_or_have_the_budget_of_their_ledger(
    counts, vocabulary, release, tmp_path
):
    other = bg.release(counts, vocabulary, epsilon=0.2, delta=1e-7)
    added = total_budget([release.card, other.card])
    assert (added.epsilon, added.delta) == (1.2, 2e-7)
    assert total_budget([release.card, release.card]).epsilon == 1  # the same noise
    ledger = bg.Ledger.create(
        tmp_path / "a.ledger", population="app users", budget=bg.Budget(2, 1e-6)
    )
    charged = [
        bg.release(
            counts, vocabulary, epsilon=0.3, ledger=ledger, output=tmp_path / str(number)
        ).card
        for number in range(2)
    ]
    budget = total_budget(charged)
    assert (budget.epsilon, budget.delta) == (2, 1e-6)
    assert "privacy filter" in budget.composition
    mixed = total_budget([*charged, release.card])
    assert mixed.epsilon == 1.6
    entry = make_entry([("a", charged[0]), ("b", charged[1])], facts())
    assert check_entry(entry)["deployment_model"]["release_type"] == "Many releases"


def test_what_can_not_be_an_entry(counts, vocabulary, release):
    seeded = bg.release(counts, vocabulary, epsilon=1, seed=1)
    with pytest.raises(bg.BayesgramError, match="out: is labelled NONE"):
        make_entry([("out", seeded.card)], facts())
    posts = bg.release(counts, vocabulary, epsilon=1, unit="a post")
    with pytest.raises(bg.UsageError, match="different units"):
        make_entry([("a", release.card), ("b", posts.card)], facts())
    with pytest.raises(bg.UsageError, match="at least one release"):
        make_entry([], facts())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "the registry needs name"),
        ({"colour": "red"}, "unknown fact 'colour'; the facts are name,"),
        ({"publication_date": "May"}, "publication_date takes a day, such as 2026-05-31"),
        ({"data_product_sector": "Fishing"}, "data_product_sector is one of Technology,"),
        ({"data_curators": []}, "data_curators takes a list of names"),
        ({"intended_use": " "}, "intended_use takes a text of 1 to 10,000 characters"),
        ({"intended_use": "a\x07b"}, "characters that can't be printed"),
        ({"notes": 7}, "notes takes a text"),
    ],
)
def test_facts_that_are_none(change, message):
    values = {name: value for name, value in {**FACTS, **change}.items() if value is not None}
    with pytest.raises(bg.UsageError, match=message):
        RegistryFacts.from_values(values)


# --- Through bg.report and the command ---


def test_from_python(release, tmp_path):
    bg.report(release, tmp_path / "report.html", registry=tmp_path / "e.yaml", registry_facts=FACTS)
    check_entry(yaml.safe_load((tmp_path / "e.yaml").read_text()))
    assert "<html" in (tmp_path / "report.html").read_text()
    release.save(tmp_path / "out")
    bg.report({"May": release, "June": tmp_path / "out"}, tmp_path / "two.html", period="spring")
    assert "June" in (tmp_path / "two.html").read_text()
    with pytest.raises(bg.UsageError, match="nothing to write"):
        bg.report(release)
    with pytest.raises(bg.UsageError, match="facts that only you know"):
        bg.report(release, registry=tmp_path / "x.yaml")
    with pytest.raises(bg.UsageError, match="give both"):
        bg.report(release, tmp_path / "x.html", registry_facts=FACTS)
    with pytest.raises(bg.UsageError, match="float is no release"):
        bg.report([1.0], tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_the_command(release, tmp_path):
    release.save(tmp_path / "out")
    lines = [f"{name} = {value!r}" for name, value in FACTS.items()]
    (tmp_path / "facts.toml").write_text("\n".join(lines), encoding="utf-8")
    given_ = ("report", "out", "--registry", "entry.yaml")
    check_output(*given_, "--registry-facts", "facts.toml", cwd=tmp_path)
    check_entry(yaml.safe_load((tmp_path / "entry.yaml").read_text(encoding="utf-8")))
    assert {path.name for path in tmp_path.iterdir()} == {"out", "facts.toml", "entry.yaml"}
    refuse = [
        (("report", "out"), "nothing to write: name the page with --output"),
        (
            ("report", "out", "--registry", "x"),
            "--registry: the entry has facts that only you know",
        ),
        (
            ("report", "out", "-o", "x", "--registry-facts", "facts.toml"),
            "--registry-facts: is for",
        ),
        ((*given_, "--registry-facts", "no.toml", "--force"), "the facts can't be read"),
        ((*given_, "--registry-facts", "entry.yaml", "--force"), "is not a TOML file"),
        ((*given_, "--registry-facts", "facts.toml"), "choose another --registry"),
    ]
    for arguments, message in refuse:
        assert message in expect_refusal(*arguments, cwd=tmp_path), arguments
