"""The half page that a report begins with, and what releases share on it."""

import re
from dataclasses import replace

import pytest

from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.reports.explanation import (
    PeopleEstimate,
    describe_accuracy,
    describe_cost,
    describe_people,
    estimate_people,
    publication_checks,
)
from bayesgram.reports.report import GlanceTable, group_releases, render_report
from bayesgram.reports.views import ReleaseView
from helpers.report_data import ParsedPage, make_release, make_view

SEGMENTS = {"by": "country", "names": ["de", "fr"], "other": False}


def make_segments():
    """Three releases as `release --by country` makes them: one budget, one histogram."""
    release, vocabulary = make_release(epsilon=20)
    return [
        ReleaseView(
            f"may/{name}",
            replace(
                release,
                card=replace(
                    release.card,
                    epsilon=1.0,
                    answers="a" * 64,
                    segment={**SEGMENTS, "name": name},
                ),
            ),
            vocabulary.prior,
        )
        for name in ("all", "de", "fr")
    ]


def with_quality(card, **values):
    quality = {"error_removed": 0.8, "known": 41.0, "known_mass": 0.41, **values}
    coverage = {"1": {"share": 0.173, "std": 0.009}}
    return replace(card, details={**card.details, "quality": {"1": quality}, "coverage": coverage})


def test_whoever_decides_reads_what_whom_how_many_how_good_and_at_which_cost():
    release, vocabulary = make_release(epsilon=20)
    card = replace(with_quality(release.card), epsilon=1.0)
    text = render_report([ReleaseView("out", replace(release, card=card), vocabulary.prior)])
    head = ParsedPage(text[text.index("<header>") :].partition("</header>")[0] + "</header>").text
    for words in (
        "Probabilities of 40 words.",
        estimate_people(card).text,
        "The vocabulary covers 17% ± 2% of people's words.",
        "removes an estimated 80% of the error that public text alone has.",
        "41% of people's listed words",
        "ε = 1, δ = 1e-06 for each user. No ledger was charged.",
        "Each person has one user id.",
        "δ = 1e-06 is far below 1 / (number of users), which is about",
        "The public text is public",
        "Nobody looked at the private text",
        "no ledger keeps it",
    ):
        assert words in head, words
    assert len(head) < 1600  # half a page


def test_the_number_of_people_is_the_noisy_one():
    """400 users: the noisy bins are added up, and nothing else is known here."""
    card = make_release(epsilon=20)[0].card
    (measured,) = card.details["by_order"].values()
    estimate = estimate_people(card)
    assert estimate.users == pytest.approx(sum(measured["noisy_users_by_norm"]))
    assert estimate.std == pytest.approx(
        measured["users_noise"] * len(measured["norm_edges"] + [0]) ** 0.5
    )
    assert abs(estimate.users - 400) < 6 * estimate.std
    assert describe_people(card) == estimate.text


@pytest.mark.parametrize(
    ("users", "std", "text"),
    [
        (99_936.0, 427.0, "About 99,900 people, ± 900 (95%)."),
        (1_234_567.0, 9.0, "About 1,234,570 people, ± 20 (95%)."),
        (400.0, 0.1, "About 400 people, ± 1 (95%)."),
        (100.0, 50.0, "Too few to tell: noise hides how many people it is about."),
        (-5.0, 1.0, "Too few to tell: noise hides how many people it is about."),
    ],
)
def test_a_number_of_people_has_no_more_digits_than_noise_leaves(users, std, text):
    assert PeopleEstimate(users, std).text == text


def test_without_a_histogram_the_stated_bound_is_shown_or_nothing():
    card = make_release(KAnonymity(2))[0].card
    assert describe_people(card) == "Not measured."
    stated = replace(card, expected_users=1_000_000)
    assert describe_people(stated) == "At most 1,000,000, as the curator states."
    assert describe_cost(card) == "No ε: nothing limits what it reveals."
    assert describe_accuracy(card) == []
    assert publication_checks([card]) == []  # it must not be published


def test_a_release_that_learnt_nothing_says_so_to_whoever_decides():
    card = with_quality(make_release()[0].card, error_removed=0.001)
    assert describe_accuracy(card)[-1] == (
        "For words, the release is no better than public text alone."
    )


def test_segments_share_one_explanation():
    views = make_segments()
    alone, together = (ParsedPage(render_report(part)).text for part in (views[:1], views))
    for words in (
        "What ε means",
        "limits what anybody can learn about you",
        "What is not covered",
        "How to read the tables",
        "How many users were clipped",
        "Before publishing, check",
        "Settings",
    ):
        assert together.count(words) == alone.count(words) == 1, words
    assert together.count("How accurate the numbers are") == 3
    assert "This release is about country = de" in together
    (group,) = group_releases(views)
    assert [member.name for member in group.members] == ["may/all", "may/de", "may/fr"]


def test_anchors_lead_to_the_releases_also_where_segments_are_mixed_with_others():
    first, second, third = make_segments()
    text = render_report([first, make_view(name="other"), second, third])
    links = dict(re.findall(r'<td><a href="#(release-\d)"><bdi>([^<]+)</bdi></a>', text))
    headings = dict(re.findall(r'<section id="(release-\d)">\s*<h2><bdi>([^<]+)</bdi>', text))
    assert links == headings
    assert sorted(links.values()) == ["may/all", "may/de", "may/fr", "other"]


def test_a_column_that_says_the_same_in_every_row_is_a_sentence():
    views = make_segments()
    table = GlanceTable.from_views([], views)
    assert "ε" not in table.columns
    assert table.shared["ε"] == "1"
    assert all(len(set(cells)) > 1 for cells in table.columns.values())
    other = make_view(epsilon=2.0, name="other")
    mixed = GlanceTable.from_views([], [*views, other])
    assert mixed.columns["ε"] == ["1", "1", "1", "2"]
    assert "δ" in mixed.shared


def test_an_answer_that_several_releases_share_names_them_together():
    views = [make_view(name=name) for name in ("a", "b")] + [make_view(epsilon=2.0, name="c")]
    text = render_report(views)
    head = ParsedPage(text[text.index("<header>") :].partition("</header>")[0] + "</header>").text
    assert "a, b : ε = 1, δ = 1e-06 for each user." in head
    assert "c : ε = 2, δ = 1e-06 for each user." in head
    assert head.count("Probabilities of 40 words.") == 1
    shown = ParsedPage(text).text
    assert shown.count("Facts about people in general.") == 2  # of ε = 1 and of ε = 2
