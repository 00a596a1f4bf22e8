"""The weights of public sources in words, on the card and in the report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.releases.card_sections import (
    SOURCE_WEIGHTS_DETAIL,
    UNKNOWN_SOURCES,
    norm_histogram,
    norm_histogram_noise_std,
    read_source_weights,
    sources_sentence,
)
from bayesgram.reports.report import render_report
from bayesgram.reports.views import ReleaseView
from helpers import web_catalogue

UNSURE = (0.5, 0.35)


def said(sources, order="3"):
    return sources_sentence({SOURCE_WEIGHTS_DETAIL: {order: web_catalogue.make_weights(sources)}})


@pytest.mark.parametrize(
    ("sources", "sentence"),
    [
        (web_catalogue.SOURCES, "People's text resembles reviews (60% ± 1) and talk (34% ± 1), but hardly wiki (6%)."),
        ({"a": (0.97, 0.01), "b": (0.03, 0.01)}, "People's text resembles a (97% ± 2), but hardly b (3%)."),
        ({"a": (1.0, 0.0), "b": (0.0, 0.0)}, "People's text resembles a (100% ± 1), but hardly b (0%)."),
        ({"a": (0.998, 0.001), "b": (0.002, 0.001)}, "People's text resembles a (100% ± 1), but hardly b (<1%)."),
        ({"a": (0.5, 0.1), "b": (0.5, 0.1)}, "People's text resembles a (50% ± 20) and b (50% ± 20)."),
        ({"a": (0.4, 0.01), "b": (0.35, 0.01), "c": (0.25, 0.01)},
         "People's text resembles a (40% ± 2), b (35% ± 2) and c (25% ± 2)."),
        ({"a": UNSURE, "b": UNSURE}, UNKNOWN_SOURCES),
        ({"a": (0.6, 0.2), "b": (0.4, 0.2)}, UNKNOWN_SOURCES),
        ({"a": (0.9, 0.3), "b": (0.1, 0.3)}, UNKNOWN_SOURCES),
        ({"a": (1 / 3, 0.5), "b": (1 / 3, 0.5), "c": (1 / 3, 0.5)}, UNKNOWN_SOURCES),
        # one text, given twice: the twins can't be told apart, the third can
        ({"a": (0.6, 0.01), "b": (0.2, 0.35), "b2": (0.2, 0.35)},
         "People's text resembles a (60% ± 2). Too noisy to tell b and b2 apart (40% together)."),
        ({"a": (0.47, 0.35), "a2": (0.47, 0.35), "b": (0.06, 0.01)},
         "People's text hardly resembles b (6%). Too noisy to tell a and a2 apart (94% together)."),
        ({"a": (0.6, 0.1), "b": (0.2, 0.2), "c": (0.2, 0.2)},
         "People's text resembles a (60% ± 20). Too noisy to tell b and c apart (40% together)."),
        ({"a": (0.7, 0.15), "b": (0.15, 0.2), "c": (0.15, 0.2)},
         "People's text resembles a (70% ± 30). For b and c it is too noisy to say."),
        ({"a": (1.0, 0.2), "b": (0.0, 0.2)}, "People's text resembles a (100% ± 40). For b it is too noisy to say."),
        ({"a": (0.9, 0.01), **{f"b{n}": (0.025, 0.002) for n in range(4)}},
         "People's text resembles a (90% ± 2), but hardly 4 others (10% together)."),
    ],
)  # fmt: skip
def test_the_sentence(sources, sentence):
    assert said(sources) == sentence


def test_one_of_many_sources_counts_by_its_share():
    """Twenty sources of 5% each: none of them is hardly written like."""
    sentence = said({f"s{n}": (0.05, 0.002) for n in range(20)})
    assert "hardly" not in sentence
    assert sentence.count("(5% ± 1)") == 20


def test_the_longest_ngrams_are_spoken_of():
    parts = {"1": 0.8, "3": 0.3}
    by_order = {
        n: web_catalogue.make_weights({"a": (part, 0.01), "b": (1 - part, 0.01)})
        for n, part in parts.items()
    }
    assert (
        sources_sentence({SOURCE_WEIGHTS_DETAIL: by_order})
        == "People's text resembles b (70% ± 2) and a (30% ± 2)."
    )
    assert [*read_source_weights({SOURCE_WEIGHTS_DETAIL: by_order})] == [1, 3]


@pytest.mark.parametrize("details", [{}, {SOURCE_WEIGHTS_DETAIL: {}}, {"model": "public"}])
def test_one_source_needs_no_words(details):
    assert sources_sentence(details) is None
    assert read_source_weights(details) == {}


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=20))
def test_every_source_is_spoken_of_once(found):
    total = sum(weight for weight, _ in found) or 1
    sources = {
        f"s{n:02}": (weight / total, deviation) for n, (weight, deviation) in enumerate(found)
    }
    sentence = said(sources)
    named = sum(sentence.count(name) for name in sources)
    assert sentence == UNKNOWN_SOURCES or named == len(sources) or " others (" in sentence
    assert named <= len(sources)
    for source in read_source_weights(
        {SOURCE_WEIGHTS_DETAIL: {"3": web_catalogue.make_weights(sources)}}
    )[3]:
        assert 0 <= source.interval[0] <= source.weight <= source.interval[1] <= 1


def release(by_order):
    return web_catalogue.add_source_weights(
        web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0), by_order
    )


def test_the_card_says_it_in_a_line_of_its_own():
    card = release({"3": web_catalogue.SOURCES}).card
    lines = str(card).splitlines()
    assert (
        "Sources:    People's text resembles reviews (60% ± 1) and talk (34% ± 1), but hardly wiki (6%)."
        in lines
    )
    assert "source_weights" not in str(card)
    assert card.to_json()["details"]["source_weights"]["3"]["wiki"] == {
        "weight": 0.06,
        "deviation": 0.004,
    }
    assert "Sources:" not in str(
        web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0).card
    )


def test_the_report_has_the_sentence_and_every_order():
    made = release(
        {
            "1": {"wiki": (0.7, 0.01), "talk": (0.3, 0.01)},
            "3": {"wiki": (0.2, 0.01), "talk": (0.8, 0.01)},
        }
    )
    shown = render_report([ReleaseView("out", made)])
    assert "People&#39;s text resembles talk (80% ± 2) and wiki (20% ± 2)." in shown
    assert "<tr><td><bdi>talk</bdi></td><td>30% ± 2</td><td>80% ± 2</td></tr>" in shown
    assert shown.index(">trigrams</text>") < shown.index(">words</text>")
    assert "source weights" not in shown


def test_an_order_that_lacks_a_source_has_a_dash():
    made = release(
        {
            "1": {"talk": (0.6, 0.01), "more": (0.4, 0.01)},
            "3": {"talk": (0.4, 0.01), "wiki": (0.6, 0.01)},
        }
    )
    assert ReleaseView("out", made).sources_table == {
        "wiki": ["–", "60% ± 2"],
        "talk": ["60% ± 2", "40% ± 2"],
        "more": ["40% ± 2", "–"],
    }


def test_one_source_has_no_part_of_the_report():
    plain = render_report(
        [ReleaseView("out", web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0))]
    )
    assert "resembles" not in plain
    assert "sources" not in plain.lower().split("</style>")[1]


# The histogram of norms


def test_a_bar_is_as_noisy_as_a_user_s_part_of_it():
    assert norm_histogram_noise_std({"by_order": {"3": {"users_noise": 8.5}}}) == 8.5
    assert norm_histogram_noise_std({}) == 0.0


def test_bins_that_may_be_noise_alone_are_not_shown():
    card = web_catalogue.make_release(web_catalogue.make_vocabulary(), 1.0).card
    for users, seen in (
        ([26.0, 900.0, 300.0, 0.0], 2),
        ([27.0, 900.0, 300.0, 0.0], 3),
        ([26.0] * 4, 0),
    ):
        measured = {**card.details["by_order"]["3"], "noisy_users_by_norm": users}
        details = {**card.details, "by_order": {"3": measured}}
        assert len(norm_histogram(details)) == seen
