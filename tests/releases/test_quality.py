"""What is said about how good a release is: from the details of its card alone."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.releases.card import Card, check_card_values
from bayesgram.releases.quality import (
    PUBLIC_TEXT,
    Coverage,
    OrderQuality,
    coverage_advice,
    describe_quality,
    deviations_sentence,
    has_valid_quality,
    read_quality,
    summary_sentences,
)
from helpers import web_catalogue

COVERAGE = {"share": 0.173, "std": 0.009}
QUALITY = {"error_removed": 0.8, "known": 2104.2, "known_mass": 0.41}
PARTS = {"noise": 0.12, "shrinkage": 0.2, "clipping": 0.004}
DETAILS = {"coverage": {"2": COVERAGE}, "quality": {"2": QUALITY}, "std_parts": {"2": PARTS}}
SUMMARY = (
    "The vocabulary covers 17% ± 2% of people's bigrams; on those, the release removes an estimated"
    " 80% of public text's error; 2,100 n-grams are known within a factor of 2."
)
DEVIATIONS = (
    "Standard deviations are for what people wrote, every occurrence counted. For the 200 bigrams"
    " that the release ranks first, they are 12% of the probability by noise, 20% by shrinkage and"
    " less than 1% by clipping."
)


def make_card(details):
    made = web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0).card
    return replace(made, details={**made.details, **details})


def test_summary_advice_and_deviations():
    assert summary_sentences(DETAILS) == [SUMMARY]
    assert deviations_sentence(DETAILS) == DEVIATIONS
    advice = coverage_advice(DETAILS)
    for word in ("people's bigrams", "a larger vocabulary", "public text", "bayesgram discover"):
        assert word in advice
    assert describe_quality(DETAILS) == [SUMMARY, advice, DEVIATIONS]


def test_deviations_of_several_orders_are_one_sentence():
    said = deviations_sentence({"std_parts": {"3": PARTS, "1": {**PARTS, "noise": 0.5}}})
    assert said.endswith(
        "For the 200 n-grams of each order that the release ranks first, they are 50% of the"
        " probability by noise, 20% by shrinkage and less than 1% by clipping (words); 12%, 20% and"
        " less than 1% (trigrams)."
    )


def test_without_the_details_nothing_is_said():
    assert describe_quality({}) == []
    assert read_quality({}) == {}
    card = make_card({})
    assert card.quality_sentences == []
    assert "Quality" not in str(card)
    assert has_valid_quality({})


def test_several_orders_share_their_sentences():
    coverage = {order: {"share": 0.5, "std": 0.01} for order in ("4", "1", "3")}
    covered = (
        "The vocabulary covers 50% ± 2% of people's words, 50% ± 2% of trigrams and 50% ± 2% of"
        " 4-grams."
    )
    assert summary_sentences({"coverage": coverage}) == [covered]
    nothing = {**QUALITY, "error_removed": 0.0}
    quality = {"1": QUALITY, "3": {**QUALITY, "error_removed": 0.5, "known": 1.0}, "4": nothing}
    assert summary_sentences({"coverage": coverage, "quality": quality}) == [
        covered,
        (
            "The release removes an estimated 80% of public text's error on listed words and 50% on"
            " trigrams."
        ),
        "Known within a factor of 2: 2,100 words and 1 trigram.",
        f"For 4-grams, {PUBLIC_TEXT}.",
    ]


def test_several_orders_whose_coverage_is_hidden_or_unknown():
    coverage = {"1": COVERAGE, "2": {"share": 1.0, "std": 0.3}, "3": None, "4": None}
    assert summary_sentences({"coverage": coverage}) == [
        (
            "The vocabulary covers 17% ± 2% of people's words. Noise hides how much of people's bigrams"
            " the vocabulary covers. How much of people's trigrams and 4-grams the vocabulary covers is"
            " unknown: the counts were made elsewhere."
        )
    ]
    hidden = {"coverage": {"2": coverage["2"]}, "quality": {"2": QUALITY}}
    assert summary_sentences(hidden) == [
        (
            "Noise hides how much of people's bigrams the vocabulary covers. On those that it lists,"
            " the release removes an estimated 80% of public text's error; 2,100 n-grams are known"
            " within a factor of 2."
        )
    ]


def test_coverage_of_counts_that_were_made_elsewhere_is_unknown():
    unknown = (
        "How much of people's bigrams the vocabulary covers is unknown: the counts were made"
        " elsewhere."
    )
    assert summary_sentences({"coverage": {"2": None}}) == [unknown]
    both = {"coverage": {"2": None}, "quality": {"2": QUALITY}}
    said = (
        f"{unknown} On those that it lists, the release removes an estimated 80% of public text's"
        " error; 2,100 n-grams are known within a factor of 2."
    )
    assert summary_sentences(both) == [said]
    assert coverage_advice(both) is None
    assert read_quality(both)[2] == OrderQuality(
        2, None, is_coverage_unknown=True, error_removed=0.8, known=2104.2, known_mass=0.41
    )


def test_quality_without_coverage():
    assert summary_sentences({"quality": {"3": QUALITY}})[0].startswith(
        "On the listed trigrams, the release removes an estimated 80%"
    )


def test_a_release_that_removes_nothing_is_public_text():
    for removed in (0.0, 0.0099):
        quality = {"2": {**QUALITY, "error_removed": removed}}
        said = summary_sentences({"coverage": {"2": COVERAGE}, "quality": quality})
        assert said == [
            f"The vocabulary covers 17% ± 2% of people's bigrams; on those, {PUBLIC_TEXT}."
        ]
    quality = {"2": {**QUALITY, "error_removed": 0.01}}
    assert "an estimated 1% of" in summary_sentences({"quality": quality})[0]


@pytest.mark.parametrize(
    ("share", "std", "text"),
    [
        (0.173, 0.002, "17% ± less than 1%"),
        (0.173, 0.0, "17% ± 0%"),
        (0.002, 0.0001, "less than 1%"),
        (0.002, 0.05, "at most 10%"),
        (0.998, 0.05, "at least 90%"),
        (0.999, 0.001, "more than 99%"),
        (1.0, 0.0, "100%"),
        (0.0, 0.0, "0%"),
        (0.5, 3.0, "at most 100%"),
        (0.8, 0.15, "at least 50%"),
        (0.1, 0.1, "at most 30%"),
    ],
)
def test_percents(share, std, text):
    assert Coverage(share, std).percent_text == text.replace("± 0%", "± less than 1%")


def test_coverage_is_low_only_where_that_is_sure():
    for share, std, is_low in ((0.29, 0.0, True), (0.29, 0.005, False), (0.3, 0.0, False)):
        details = {"coverage": {"2": {"share": share, "std": std}}}
        assert (coverage_advice(details) is not None) == is_low


def test_card_text_html_and_json_have_it():
    card = make_card(DETAILS)
    lines = str(card).splitlines()
    assert f"Quality:    {SUMMARY}" in lines
    assert f"Deviations: {DEVIATIONS}" in lines
    assert any(line.startswith("Advice:     Most of people's bigrams") for line in lines)
    assert "The vocabulary covers 17% ± 2%" in card._repr_html_()
    values = {"format": 2, **card.to_json()}
    assert values["quality"] == card.quality_sentences
    check_card_values(values)
    assert Card.from_json(json.loads(json.dumps(values))) == card


# Hostile values

NUMBERS = st.one_of(st.floats(), st.integers(), st.sampled_from([0, 1, 10**400, True]))
VALUES = st.recursive(
    st.none() | NUMBERS | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["2", "3", "x", "share", "std", "error_removed", "known", "known_mass"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
UNIT = st.floats(0, 1)
SIZE = st.floats(0, 1e15)
ORDERS = st.sampled_from("123456")
VALID = st.fixed_dictionaries(
    {},
    optional={
        "coverage": st.dictionaries(
            ORDERS, st.none() | st.fixed_dictionaries({"share": UNIT, "std": SIZE})
        ),
        "quality": st.dictionaries(
            ORDERS,
            st.fixed_dictionaries({"error_removed": UNIT, "known": SIZE, "known_mass": UNIT}),
        ),
        "std_parts": st.dictionaries(
            ORDERS, st.fixed_dictionaries({"noise": SIZE, "shrinkage": SIZE, "clipping": SIZE})
        ),
    },
)


@given(details=st.dictionaries(st.sampled_from(["coverage", "quality", "std_parts"]), VALUES))
def test_what_is_accepted_can_be_said(details):
    if has_valid_quality(details):
        assert all(sentence.endswith(".") for sentence in describe_quality(details))


@given(details=VALID)
def test_valid_values_are_accepted_and_said_in_short_sentences(details):
    assert has_valid_quality(details)
    for sentence in describe_quality(details):
        assert not re.search(r"± 0%|nan|inf|e\+", sentence)
        assert len(sentence) < 1200
