"""Labels propagate: a result has the weakest label of everything that it was made from."""

import json
import shutil
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import bayesgram as bg
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.inference.reinfer import infer
from bayesgram.lm.adaptation import adapt
from bayesgram.lm.arpa import read_arpa, write_arpa
from bayesgram.lm.export import release_table, write_parquet
from bayesgram.lm.interpolation import interpolate
from bayesgram.lm.language_model import LanguageModel
from bayesgram.lm.scoring import ModelScorer
from bayesgram.mechanisms.publish import check_published, dry_run, list_ingredients, release_label
from bayesgram.privacy.accounting import Spend
from bayesgram.privacy.budget import Guarantee
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.provenance import (
    DiscoveryClaim,
    Ingredient,
    combined_label,
    merge_claims,
    unproved_sentence,
    weakest_label,
)
from bayesgram.releases.release import Release
from bayesgram.web.catalogue import FileKind, Index, OrderTable, write_rows

TEXT = ["the red fish swims", "the blue fish sleeps", "a red fish sleeps in the cold water"]
PUBLIC = pa.table({"text": TEXT})
PRIVATE = pa.table(
    {"user": [f"u{at}" for at in range(400)], "text": ["the blue fish swims in cold water"] * 400}
)
BUDGET = bg.Budget(1.0, 1e-7)
RELEASES = {
    "PROVED": lambda counts, vocabulary: bg.release(counts, vocabulary, bg.Posterior(), BUDGET),
    "NONE": lambda counts, vocabulary: bg.release(
        counts, vocabulary, bg.Posterior(), BUDGET, seed=1
    ),
}


def vocabulary(order=(1, 2)):
    return Vocabulary.from_public(PUBLIC, order=list(order), size=50)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A release of each label, saved; the vocabulary and counts that they were made of."""
    folder, public = tmp_path_factory.mktemp("labels"), vocabulary()
    counts = bg.count(PRIVATE, public)
    made = {label: make(counts, public) for label, make in RELEASES.items()}
    for label, each in made.items():
        each.save(folder / label)
    return folder, public, counts, made


def test_the_weakest_label_decides():
    order = [Guarantee.PROVED, Guarantee.EMPIRICAL, Guarantee.NONE]
    for labels in product(order, repeat=3):
        assert weakest_label(labels[0], labels[1:]) is order[max(map(order.index, labels))]
    assert combined_label([]) == "PROVED"


def followed(folder, label, public, counts):
    """A release of its own noise that follows."""
    return bg.release(
        counts, public, bg.Posterior(), BUDGET, previous=folder / label
    ).card.guarantee.name


def followed_twice(folder, label, public, counts):
    between = bg.release(counts, public, bg.Posterior(), BUDGET, previous=folder / label)
    return bg.release(counts, public, bg.Posterior(), BUDGET, previous=between).card.guarantee.name


def of_source(folder, label):
    """A vocabulary with the release as one of its sources."""
    return Vocabulary.from_public({"text": PUBLIC, "before": folder / label}, order=[1, 2], size=50)


def vocabulary_source(folder, label, public, counts):
    return of_source(folder, label).label


def saved_vocabulary(folder, label, public, counts):
    of_source(folder, label).save(folder / f"{label}.parquet", force=True)
    return Vocabulary.load(folder / f"{label}.parquet").label


def vocabulary_of_vocabulary(folder, label, public, counts):
    of_source(folder, label).save(folder / f"{label}.parquet", force=True)
    return Vocabulary.from_public(
        {"text": PUBLIC, "list": folder / f"{label}.parquet"}, order=[1, 2], size=50
    ).label


def release_of_source(folder, label, public, counts):
    mixed = of_source(folder, label)
    return bg.release(bg.count(PRIVATE, mixed), mixed, bg.Posterior(), BUDGET).card.guarantee.name


def gaussian_of_source(folder, label, public, counts):
    mixed = Vocabulary.from_public({"text": PUBLIC, "before": folder / label}, order=2, size=50)
    return bg.release(bg.count(PRIVATE, mixed), mixed, bg.Gaussian(), BUDGET).card.guarantee.name


def laplace_of_source(folder, label, public, counts):
    mixed = Vocabulary.from_public({"text": PUBLIC, "before": folder / label}, order=2, size=50)
    return bg.release(
        bg.count(PRIVATE, mixed), mixed, bg.Laplace(), epsilon=1.0
    ).card.guarantee.name


def inferred(folder, label, public, counts):
    return infer(folder / label, public).card.guarantee.name


def inferred_with_source(folder, label, public, counts):
    """Proved measurements, read with public text that is not."""
    return infer(folder / "PROVED", of_source(folder, label)).card.guarantee.name


def list_of_release(folder, label, public, counts):
    return Vocabulary.from_list(folder / label / "distribution.parquet", PUBLIC).label


def list_of_vocabulary(folder, label, public, counts):
    return Vocabulary.from_list(of_source(folder, label), PUBLIC).label


def discovered(folder, label, public, counts):
    return bg.discover(PRIVATE, of_source(folder, label), BUDGET, rounds=1).card.guarantee.name


def discovered_with_model(folder, label, public, counts):
    model = LanguageModel.open(folder / label)
    return bg.discover(PRIVATE, public, BUDGET, rounds=1, model=model).vocabulary.label


def model(folder, label, public, counts):
    return LanguageModel.open(folder / label).label


def saved_model(folder, label, public, counts):
    LanguageModel.open(folder / label).save(folder / f"{label}-model", force=True)
    return LanguageModel.load(folder / f"{label}-model").label


def pruned_model(folder, label, public, counts):
    return LanguageModel.open(folder / label).prune(20).quantise().label


def model_as_source(folder, label, public, counts):
    LanguageModel.open(folder / label).save(folder / f"{label}-model", force=True)
    sources = {"text": PUBLIC, "model": folder / f"{label}-model"}
    return Vocabulary.from_public(sources, order=[1, 2], size=50).label


def interpolated(folder, label, public, counts):
    public_model = LanguageModel.from_counts(public.ngrams, public.counts, public.tokenizer)
    return interpolate([public_model, LanguageModel.open(folder / label)]).label


def moved(folder, label, public, counts):
    return PublicModel.from_public(public, PUBLIC).adapt_to(Release.load(folder / label)).label


def public_model_of_list(folder, label, public, counts):
    listed = Vocabulary.from_list(folder / label / "distribution.parquet", PUBLIC)
    made = PublicModel.from_public(listed, PUBLIC)
    made.save(folder / f"{label}-public", force=True)
    return PublicModel.load(folder / f"{label}-public").mixture.label


def list_of_export(folder, label, public, counts):
    write_parquet(Release.load(folder / label), folder / f"{label}-table.parquet", force=True)
    return Vocabulary.from_list(folder / f"{label}-table.parquet", PUBLIC).label


def list_of_a_copy(folder, label, public, counts):
    shutil.copy(folder / label / "distribution.parquet", folder / f"{label}-copy.parquet")
    return Vocabulary.from_list(folder / f"{label}-copy.parquet", PUBLIC).label


def list_of_a_download(folder, label, public, counts):
    release = Release.load(folder / label)
    rows = np.flatnonzero(release.orders == 1).astype(np.int32)
    table = OrderTable(release, None, Index.from_rows(release.ngrams, rows))
    (folder / f"{label}-download.parquet").write_bytes(write_rows(table, rows, FileKind.PARQUET))
    return Vocabulary.from_list(folder / f"{label}-download.parquet", PUBLIC).label


def adapted_twice(folder, label, public, counts):
    first = adapt(Uniform(), Release.load(folder / label), public)
    return adapt(first, Release.load(folder / "PROVED"), public).label


def adapted_model(folder, label, public, counts):
    scorer = ModelScorer(LanguageModel.open(folder / label))
    return adapt(scorer, Release.load(folder / "PROVED"), public).label


def mixture_of_public_models(folder, label, public, counts):
    text = LanguageModel.from_counts(public.ngrams, public.counts, public.tokenizer)
    return PublicModel({"public": text}, of_source(folder, label)).mixture.label


class Uniform:
    words = ("red", "blue", "fish", "<unk>")

    def log_probabilities(self, contexts):
        return np.full((len(contexts), 4), np.log(1 / 4))


def adapted(folder, label, public, counts):
    return adapt(Uniform(), Release.load(folder / label), public).label


def adapted_with_model(folder, label, public, counts):
    return adapt(
        Uniform(), Release.load(folder / "PROVED"), public, model=LanguageModel.open(folder / label)
    ).label


def exported(folder, label, public, counts):
    claim = release_table(Release.load(folder / label)).schema.metadata[b"bayesgram.claim"].decode()
    return claim.rpartition("(")[2].rstrip(")")


MAKERS = [
    *(
        followed,
        followed_twice,
        vocabulary_source,
        saved_vocabulary,
        vocabulary_of_vocabulary,
        release_of_source,
    ),
    *(
        gaussian_of_source,
        laplace_of_source,
        inferred,
        inferred_with_source,
        list_of_release,
        list_of_vocabulary,
    ),
    *(
        discovered,
        discovered_with_model,
        model,
        saved_model,
        pruned_model,
        model_as_source,
        interpolated,
        moved,
    ),
    *(list_of_a_copy, list_of_a_download, adapted_twice, adapted_model, mixture_of_public_models),
    *(public_model_of_list, list_of_export, adapted, adapted_with_model, exported),
]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("label", RELEASES)
def test_what_is_made_from_a_release_has_its_label(world, label, make):
    folder, public, counts, _ = world
    assert make(folder, label, public, counts) == label


def test_an_empirical_release_makes_empirical_ones(world):
    folder, *_ = world
    single = vocabulary(order=(2,))
    paper = bg.release(bg.count(PRIVATE, single), single, bg.paper.Paper(), epsilon=1.0, delta=1e-7)
    paper.save(folder / "paper")
    mixed = Vocabulary.from_public({"text": PUBLIC, "before": folder / "paper"}, order=2, size=50)
    made = bg.release(bg.count(PRIVATE, mixed), mixed, bg.Posterior(), BUDGET)
    assert mixed.label == made.card.guarantee.name == "EMPIRICAL"
    assert "made from paper (ε = 1, δ = 1e-07, EMPIRICAL)" in made.card.statement


def test_a_card_says_why_it_has_no_guarantee_and_keeps_it_on_disk(world, tmp_path):
    folder, public, counts, _ = world
    made = bg.release(counts, public, bg.Posterior(), BUDGET, previous=folder / "NONE")
    assert made.card.statement == (
        "made from NONE (ε = 1, δ = 1e-07, NONE): nothing is proved of a result that was made from it (otherwise,"
        " this mechanism is PROVED)"
    )
    assert made.card.protects == "nobody for certain"
    assert not made.card.seeded
    made.save(tmp_path / "out")
    assert Release.load(tmp_path / "out").card == made.card
    # A card that was edited to say PROVED is still what it was made from.
    stored = json.loads((tmp_path / "out" / "card.json").read_text())
    stored["guarantee"] = "PROVED"
    (tmp_path / "out" / "card.json").write_text(json.dumps(stored))
    assert Release.load(tmp_path / "out").card.guarantee is Guarantee.NONE


def test_what_is_not_proved_is_not_charged_to_a_ledger(world, tmp_path):
    """Budget would be spent on something that can't be published: refused before anything is."""
    folder, public, counts, _ = world
    ledger = bg.Ledger.create(tmp_path / "app.ledger", population="p", budget=bg.Budget(9, 1e-5))
    before = ledger.path.read_bytes()
    mixed, out = of_source(folder, "NONE"), tmp_path / "out"
    for ask in (
        lambda: bg.release(
            counts,
            public,
            bg.Posterior(),
            BUDGET,
            previous=folder / "NONE",
            ledger=ledger,
            output=out,
        ),
        lambda: bg.release(
            bg.count(PRIVATE, mixed), mixed, bg.Posterior(), BUDGET, ledger=ledger, output=out
        ),
        lambda: bg.discover(PRIVATE, mixed, BUDGET, ledger=ledger, output=out),
    ):
        with pytest.raises(UsageError, match=r"made from NONE .*so no ledger is charged for it"):
            ask()
    assert ledger.path.read_bytes() == before
    assert not out.exists()


def test_a_dry_run_says_the_label_of_the_release(world):
    folder, public, counts, _ = world
    for label in RELEASES:
        mechanism = bg.Posterior().follow(folder / label)
        assert dry_run(counts, public, mechanism, BUDGET).guarantee == label
        assert release_label(mechanism, public).name == label
        assert list_ingredients(mechanism, public)[0] == Ingredient(label, label, 1.0, 1e-7)
    assert dry_run(counts, public, bg.Posterior(), BUDGET, seed=1).guarantee == "NONE"


def test_what_was_discovered_stays_named_however_its_words_are_used(tmp_path):
    """A vocabulary made of a discovered one, as a list or as a source, does not forget what it cost."""
    people = pa.table({"user": [f"u{at}" for at in range(900)], "text": ["the zorp fish"] * 900})
    found = bg.discover(people, vocabulary(), bg.Budget(2.0, 1e-6), rounds=1, unit="a user's week")
    assert "zorp" in found.ngrams.to_pylist()
    claim = found.vocabulary.origins.claims[0]
    assert claim.unit == "a user's week"
    found.save(tmp_path / "found")
    grown = tmp_path / "found" / "vocab.parquet"
    remade = [
        Vocabulary.from_list(Vocabulary.load(grown), {"text": PUBLIC}),
        Vocabulary.from_list(grown, {"text": PUBLIC}),
        Vocabulary.from_list(
            tmp_path / "found" / "ngrams.parquet", {"text": pa.table({"text": ["a zorp fish"]})}
        ),
        Vocabulary.from_public({"text": PUBLIC, "list": grown}, order=[1, 2], size=90),
    ]
    for made in remade:
        assert made.origins.claims == (claim,)
        assert "zorp" in made.ngrams.filter(pa.array(made.origins.discovered)).to_pylist()
    made = bg.release(
        bg.count(people, remade[0]), remade[0], bg.Posterior(), BUDGET, unit="a user's week"
    )
    assert made.card.discoveries == (claim,)
    assert "discovered at ε = 2" in made.card.vocabulary_sentence
    # Measurements keep the discoveries that they were made with, also where they are read with public text alone.
    again = infer(made, vocabulary())
    assert again.card.discoveries == (claim,)
    assert [str(each) for each in again.card.ingredients] == [
        "a discovery (ε = 2, δ = 1e-06 for a user's week, PROVED)"
    ]


def test_an_arpa_file_has_no_place_for_a_label(world, tmp_path):
    """So the command that writes it says so; read again, it is what its user states it to be."""
    folder, *_ = world
    write_arpa(LanguageModel.open(folder / "NONE"), tmp_path / "none.arpa")
    assert read_arpa(tmp_path / "none.arpa").ingredients == ()


@pytest.mark.parametrize(
    "metadata", [b"", b"1", b"[1]", b'[{"name": "a"}]', b'[{"name": "a", "guarantee": "SURE"}]']
)
def test_damaged_ingredients_are_refused(world, tmp_path, metadata):
    from pyarrow import parquet

    folder, *_ = world
    of_source(folder, "NONE").save(tmp_path / "v.parquet")
    table = parquet.read_table(tmp_path / "v.parquet")
    stated = {**table.schema.metadata, b"bayesgram.made_from": metadata}
    parquet.write_table(table.replace_schema_metadata(stated), tmp_path / "v.parquet")
    with pytest.raises(
        UsageError, match="its metadata names what it was made from, and is damaged"
    ):
        Vocabulary.load(tmp_path / "v.parquet")


def test_only_what_was_published_can_be_followed(world, tmp_path):
    _, public, counts, _ = world
    ledger = bg.Ledger.create(tmp_path / "app.ledger", population="p", budget=bg.Budget(9, 1e-5))
    first = bg.release(
        counts, public, bg.Posterior(), BUDGET, ledger=ledger, output=tmp_path / "week-1"
    )
    assert [entry.published for entry in ledger.read().reservations] == [True]
    second = bg.release(
        counts,
        public,
        bg.Posterior(),
        BUDGET,
        ledger=ledger,
        output=tmp_path / "week-2",
        previous=first,
    )
    assert (
        "ε = 9, δ = 1e-05 (PROVED) for everything one user wrote in these data"
        in second.card.chain_sentence
    )
    number = ledger.reserve(Spend.gaussian(50.0), {"mechanism": "posterior"})
    lost = replace(second, card=replace(second.card, ledger=ledger.charge_details(number)))
    with pytest.raises(UsageError, match=r"its entry \d+ of .* is not marked as published"):
        bg.release(
            counts,
            public,
            bg.Posterior(),
            BUDGET,
            ledger=ledger,
            output=tmp_path / "week-3",
            previous=lost,
        )
    assert len(ledger.read().reservations) == 3
    assert not (tmp_path / "week-3").exists()
    with pytest.raises(UsageError, match="is not marked as published"):
        dry_run(counts, public, bg.Posterior().follow(lost), BUDGET, ledger=ledger)
    ledger.complete(number)
    check_published(ledger, list_ingredients(bg.Posterior().follow(lost), public))


def test_a_sentence_names_a_few_ingredients():
    many = [Ingredient(f"r{at}", "NONE") for at in range(5)]
    assert unproved_sentence(many) == (
        "made from r0 (NONE), r1 (NONE), r2 (NONE) and 2 more: nothing is proved of a result that was made from them"
    )
    assert unproved_sentence([Ingredient("r", "PROVED", 1.0, 1e-7)]) is None


def test_our_own_tables_are_not_read_as_public_text(world, tmp_path):
    """As text their n-grams would pass as public, whatever the column is called and wherever the file is copied."""
    folder, public, *_ = world
    shutil.copy(folder / "NONE" / "measured.parquet", tmp_path / "rows.parquet")
    (tmp_path / "lists").mkdir()
    public.save(tmp_path / "lists" / "v.parquet")
    inputs = [
        (folder / "NONE" / "measured.parquet", "text"),
        (tmp_path / "rows.parquet", "text"),
        (folder / "NONE" / "distribution.parquet", "ngram"),
        (tmp_path / "lists", "ngram"),
        (str(tmp_path / "lists" / "*.parquet"), "ngram"),
    ]
    for given, column in inputs:
        with pytest.raises(UsageError, match="which is not read as public text"):
            Vocabulary.from_public(given, order=1, size=9, text_column=column)
    for listed in (tmp_path / "lists", tmp_path / "lists" / "*"):
        with pytest.raises(UsageError, match="which is not read as public text"):
            Vocabulary.from_list(listed, PUBLIC)


def discovery_of_zorp(tmp_path, name, **options):
    people = pa.table({"user": [f"u{at}" for at in range(900)], "text": ["the zorp fish"] * 900})
    found = bg.discover(people, vocabulary(), bg.Budget(2.0, 1e-6), rounds=1, **options)
    if "output" not in options:
        found.save(tmp_path / name)
    return found


def test_a_model_remembers_the_discoveries_behind_it(tmp_path):
    """So a chain that rests on one which no ledger was charged for is not promised the budget of a ledger."""
    found = discovery_of_zorp(tmp_path, "found")
    made = bg.release(bg.count(PRIVATE, found.vocabulary), found.vocabulary, bg.Posterior(), BUDGET)
    LanguageModel.from_release(made).save(tmp_path / "model")
    mixed = Vocabulary.from_public(
        {"text": PUBLIC, "model": tmp_path / "model"}, order=[1, 2], size=90
    )
    assert mixed.origins.claims == found.vocabulary.origins.claims
    ledger = bg.Ledger.create(tmp_path / "a.ledger", population="p", budget=bg.Budget(50, 1e-4))
    counts, previous = bg.count(PRIVATE, mixed), None
    for week in ("week-1", "week-2"):
        previous = bg.release(
            counts,
            mixed,
            bg.Posterior(),
            BUDGET,
            ledger=ledger,
            output=tmp_path / week,
            previous=previous,
        )
    assert (
        "Not a promise: the 2 releases and 1 discovery have spent" in previous.card.chain_sentence
    )
    assert (
        "What its vocabulary was made from is not counted: a release (ε = 1"
        in previous.card.chain_sentence
    )
    assert previous.card.is_unreviewed


def test_discoveries_of_different_ledgers_and_units_are_different():
    """Two that found nothing have the same fingerprint."""
    one = DiscoveryClaim(0.1, 1e-8, "PROVED", ledger="a", entry=1, fingerprint="0")
    others = [
        replace(one, ledger="b"),
        replace(one, entry=2),
        replace(one, unit="a post"),
        replace(one, epsilon=0.2),
    ]
    assert len(merge_claims([[one], *([other] for other in others), [one]])) == 5


@pytest.mark.parametrize("reviewed", [(True, False), (False, True), (True, True)])
def test_a_discovery_counts_as_reviewed_only_if_every_copy_was(reviewed):
    claims = [
        DiscoveryClaim(1.0, 1e-7, "PROVED", fingerprint="0", reviewed=each) for each in reviewed
    ]
    assert [claim.reviewed for claim in merge_claims([claim] for claim in claims)] == [
        all(reviewed)
    ]


def test_a_discovery_that_was_not_published_is_no_vocabulary(tmp_path):
    ledger = bg.Ledger.create(tmp_path / "a.ledger", population="p", budget=bg.Budget(50, 1e-4))
    found = discovery_of_zorp(tmp_path, "found", ledger=ledger, output=tmp_path / "found")
    claim = found.vocabulary.origins.claims[0]
    assert (claim.ledger, claim.entry) == (ledger.identity, 1)
    number = ledger.reserve(Spend.gaussian(50.0), {"mechanism": "discovery"})
    lost = replace(found.vocabulary.origins, claims=(replace(claim, entry=number),))
    grown = replace(found.vocabulary, origins=lost)
    out = {"ledger": ledger, "output": tmp_path / "out"}
    with pytest.raises(
        UsageError, match=rf"a discovery: its entry {number} of .* is not marked as published"
    ):
        bg.release(bg.count(PRIVATE, grown), grown, bg.Posterior(), BUDGET, **out)
    with pytest.raises(
        UsageError, match=rf"a discovery: its entry {number} of .* is not marked as published"
    ):
        bg.discover(PRIVATE, grown, bg.Budget(1.0, 1e-6), **out)
    assert not (tmp_path / "out").exists()


def test_segments_of_two_releases_are_not_followed(tmp_path):
    """Their inference is joint: one that is not proved would weaken all of them."""
    public = vocabulary()
    people = PRIVATE.append_column("country", pa.array(["de", "fr"] * 200))
    counts = bg.count(people, public, by="country", segments=["de", "fr"])
    for name, seed in (("proved", None), ("seeded", 1)):
        bg.release(counts, public, bg.Posterior(), BUDGET, seed=seed).save(tmp_path / name)
    shutil.rmtree(tmp_path / "proved" / "de")
    shutil.copytree(tmp_path / "seeded" / "de", tmp_path / "proved" / "de")
    with pytest.raises(UsageError, match="de: is of another release than that of all people"):
        bg.release(counts, public, bg.Posterior(), BUDGET, previous=tmp_path / "proved")
    with pytest.raises(UsageError, match="de: is of another release than that of all people"):
        infer(tmp_path / "proved", public)


def test_an_error_after_saving_does_not_say_that_the_release_is_lost(world, tmp_path, monkeypatch):
    _, public, counts, _ = world
    ledger = bg.Ledger.create(tmp_path / "a.ledger", population="p", budget=bg.Budget(9, 1e-5))
    save = Release.save

    def unconfirmed(release, path, *, force=False):
        save(release, path, force=force)
        raise BayesgramError("is written, but the disk did not confirm it")

    monkeypatch.setattr(Release, "save", unconfirmed)
    with pytest.raises(BayesgramError) as caught:
        bg.release(counts, public, bg.Posterior(), BUDGET, ledger=ledger, output=tmp_path / "out")
    assert "only the note that it was published is missing" in caught.value.__notes__[0]
    assert "lost" not in caught.value.__notes__[0]
