"""The report: what it says, what it never says unasked, and that no string gets out of its place."""

import math
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from bayesgram.mechanisms.gaussian import Gaussian
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.algorithm_1 import Paper
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.releases.card_sections import belief_bounds, format_odds_factor
from bayesgram.reports.explanation import explain_epsilon
from bayesgram.reports.report import render_report
from bayesgram.reports.views import ReleaseView
from bayesgram.version import DOCS_ADDRESS
from helpers.report_data import (
    HOSTILE,
    WARNING,
    ParsedPage,
    make_private_part,
    make_release,
    make_view,
)


def test_it_says_who_is_protected_what_epsilon_means_and_what_is_not_covered():
    shown = ParsedPage(render_report([make_view()])).text
    assert "everything one user wrote in these data" in shown
    assert "e^ε = 2.72" in shown
    assert "is at most 23.2% and at least 3.9%" in shown
    assert "1 in 1,000,000" in shown
    assert "k ids cost k times the ε, and more than k times the δ" in shown
    assert "Their ε and δ add up" in shown
    assert "PROVED" in shown
    assert "none was charged" in shown
    assert "not recorded: the release was made from Python" in shown


def test_labels_that_promise_nothing_are_not_given_odds():
    for mechanism, words in (
        (Paper(), "is the claim of the paper"),
        (KAnonymity(2), "No ε is claimed"),
    ):
        shown = ParsedPage(render_report([make_view(mechanism)])).text
        assert words in shown
        assert "nobody for certain" in shown
        assert "e^ε =" not in shown
        assert "Everything: no limit is proved" in shown
    seeded = ParsedPage(render_report([make_view(seed=1)])).text
    assert "whoever knows the seed can remove it" in seeded
    assert "e^ε =" not in seeded


@pytest.mark.parametrize("epsilon", [1e-5, 0.1, 1.0, 5.0, 14.0, 16.0, 20.0, 100.0])
def test_odds_are_never_printed_below_the_truth(epsilon):
    factor = float(format_odds_factor(epsilon).replace(",", ""))
    assert math.exp(epsilon) <= factor <= 1.1 * math.exp(epsilon)
    low, high = map(float, belief_bounds(0.1, epsilon))
    odds = math.exp(epsilon) / 9
    assert high >= 100 * odds / (1 + odds) - 1e-9
    assert low <= 100 / (1 + 9 * math.exp(epsilon)) + 1e-9


def test_delta_zero_has_no_exception():
    shown = ParsedPage(render_report([make_view(Laplace(5))])).text
    assert "no exception" in shown
    assert "plus" not in shown
    assert "the factor would be at most e^(2ε) = 7.39: removing" in shown


def test_every_limit_says_its_delta():
    shown = ParsedPage(render_report([make_view()])).text
    assert "by at most a factor of e^ε = 2.72, plus δ." in shown
    assert "Example, ignoring δ: somebody believes with a probability of 10%" in shown
    assert "a conclusion may grow by up to another 1 in 1,000,000." in shown
    assert "at most e^(2ε) = 7.39, plus (1 + e^ε)δ = 3.8e-06: removing the one" in shown
    assert "this is no limit" not in shown


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-7), (1.0, 1e-6), (5.0, 1e-3), (9.9, 1e-5)])
def test_two_steps_are_what_the_sentence_says_and_not_less(epsilon, delta):
    """Coins that take each step in full reach the bound: e^(2ε) alone, or with one δ, would be false."""
    tails = 1e-9
    heads = math.exp(epsilon) * (math.exp(epsilon) * tails + delta) + delta
    sentence = explain_epsilon(replace(make_release()[0].card, epsilon=epsilon, delta=delta))[-1]
    factor, more = re.search(
        r"e\^\(2ε\) = ([\d.,e+]+), plus \(1 \+ e\^ε\)δ = ([\d.e+-]+):", sentence
    ).groups()
    bound = float(factor.replace(",", "")) * tails + float(more)
    assert heads <= bound <= 1.1 * heads
    assert heads > math.exp(2 * epsilon) * tails + 1.9 * delta
    assert ("this is no limit" in sentence) == (float(more) >= 1)


def test_delta_is_explained_by_a_chance():
    sentence = explain_epsilon(replace(make_release()[0].card, epsilon=1.0, delta=1e-6))[2]
    assert (
        "The worst case is this: with that probability, everything you wrote is shown; otherwise,"
        " the limit holds." in sentence
    )


def test_a_limit_that_is_none_says_so():
    sentence = explain_epsilon(replace(make_release()[0].card, epsilon=9.0, delta=1e-3))[-1]
    assert sentence.endswith("A probability can't grow by 1 or more, so this is no limit.")


def test_what_is_proved_and_worthless_says_so_beside_the_label():
    release, vocabulary = make_release()
    weak = replace(release.card, epsilon=100.0, delta=0.5)
    text = render_report([ReleaseView("out", replace(release, card=weak), vocabulary.prior)])
    shown = ParsedPage(text).text
    assert shown.count("PROVED worthless") == 1  # above the release; one release has no table
    assert (
        "Worthless. ε = 100 allows odds to change by a factor of 2.7e+43: PROVED, and it protects nobody."
        in shown
    )
    assert (
        "Worthless. δ = 0.5 allows everything about a user to be shown with a chance of 1 in 2"
        in shown
    )
    assert 'class="grade"' not in render_report([make_view()])


def test_too_many_users_for_a_delta_is_said_where_the_bound_is_known():
    release, _ = make_release()
    told = ReleaseView(
        "out", replace(release, card=replace(release.card, expected_users=1_000_000))
    )
    assert "1 of 1,000,000 users" in ParsedPage(render_report([told])).text
    assert told.card.claim == "ε = 1, δ = 1e-06 (PROVED, weak)"


def test_ledger_and_command_are_shown():
    release, _ = make_release()
    charged = replace(
        release.card,
        ledger={"population": "app <users>", "entry": 3},
        command="bayesgram release '<b>'",
    )
    text = render_report([ReleaseView("out", replace(release, card=charged))])
    shown = ParsedPage(text).text
    assert "app <users>" in shown
    assert "entry 3" in shown
    assert "bayesgram release '<b>'" in shown
    assert "'<b>'" not in text


def test_several_orders_are_told_apart():
    ngrams = ["a", "b", "c", "a b", "b c", "c a", "a b c", "b c a"]
    release, vocabulary = make_release(ngrams=ngrams)
    assert vocabulary.prior[:3].sum() == pytest.approx(1)
    shown = ParsedPage(render_report([ReleaseView("out", release, vocabulary.prior)])).text
    for name in ("words", "bigrams", "trigrams"):
        assert f"How accurate the numbers are: {name}" in shown
    assert "n-grams of order 1, 2, 3" in shown


@pytest.mark.parametrize(
    "mechanism", [Posterior(), Posterior(clip_norm=2.0), Gaussian(), Laplace(5), KAnonymity(2)]
)
def test_clipping_is_told_as_far_as_it_is_known(mechanism):
    told = make_view(mechanism, epsilon=20).clipping  # 400 users are seen beyond doubt
    if mechanism == Posterior():
        assert re.search(r"About [<>]?\d+% of the users", told.sentence)
        assert told.drawing is not None
    elif isinstance(mechanism, KAnonymity):
        assert told.sentence == "This mechanism does not limit what one user contributes."
    else:
        assert told.sentence.startswith("Not measured. The limit for one user was given (")
        assert told.drawing is None


def test_noise_that_hides_everything_is_said():
    release, _ = make_release()
    ((order, measured),) = release.card.details["by_order"].items()
    nobody = [0.0] * len(measured["noisy_users_by_norm"])
    hidden = {
        **release.card.details,
        "by_order": {order: {**measured, "noisy_users_by_norm": nobody}},
    }
    told = ReleaseView("out", replace(release, card=replace(release.card, details=hidden))).clipping
    assert told.sentence.startswith("Noise hides how much users write")


@pytest.mark.parametrize("public", [True, False])
def test_public_text_is_compared_with_where_it_is_given(public):
    moved = Posterior(
        clip_norm=2.0
    )  # with ε = 20 surely; with 1, and a norm that is chosen, 1 in 600 is public text
    shown = ParsedPage(render_report([make_view(moved, public=public, epsilon=20)])).text
    assert ("More frequent than in public text" in shown) == public
    assert ("give the vocabulary with --vocab" in shown) != public


def test_a_release_that_is_public_text_says_so():
    release, vocabulary = make_release()
    same = ReleaseView("out", replace(release, probabilities=vocabulary.prior), vocabulary.prior)
    shown = ParsedPage(render_report([same])).text
    assert "Nothing: the release equals public text. There were too few users for this ε." in shown
    assert "More frequent than in public text" not in shown


def test_hostile_ngrams_and_names_are_text():
    text = render_report([make_view(ngrams=HOSTILE, name="<script>1</script>")])
    parsed = ParsedPage(text)
    assert not {"script", "img", "iframe", "object"} & set(parsed.tags)
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert "<script>document.title='stolen'</script>" in parsed.text
    assert "\u202e" not in text
    assert "a�b" in parsed.text


def test_it_stands_alone():
    text = render_report([make_view(), make_view(Paper(), name="paper")], make_private_part())
    parsed = ParsedPage(text)
    references = [
        value
        for name, value in parsed.attributes
        if name in {"href", "src", "action", "data", "xlink:href"}
    ]
    assert references
    assert all(value.startswith("#") for value in references)
    ids = {value for name, value in parsed.attributes if name == "id"}
    assert {value.removeprefix("#") for value in references} <= ids
    assert "://" not in text.replace(DOCS_ADDRESS, "")  # named, and no link
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_it_can_be_read_without_seeing_it():
    parsed = ParsedPage(render_report([make_view()], make_private_part()))
    assert parsed.tags.count("h1") == 1
    assert parsed.tags.count("svg") == [name for name, _ in parsed.attributes].count(
        "aria-label"
    ) - len([value for name, value in parsed.attributes if (name, value) == ("role", "region")])
    assert ("lang", "en") in parsed.attributes
    headings = [int(tag[1]) for tag in parsed.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(later - earlier <= 1 for earlier, later in pairwise(headings))


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_has_enough_contrast():
    style = render_report([make_view()])
    for part in (style, style.split("prefers-color-scheme: dark")[1]):
        colours = {
            name: re.search(rf"--{name}: (#\w+)", part)[1]
            for name in ("ink", "dim", "paper", "good", "half", "bad")
        }
        paper = colours.pop("paper")
        paper = paper if len(paper) == 7 else "#" + "".join(2 * digit for digit in paper[1:])
        for name, colour in colours.items():
            assert contrast(colour, paper) >= 4.5, (name, colour, paper)
        assert contrast(re.search(r"--edge: (#\w+)", part)[1], paper) >= 3  # of what can be pressed
    badges = re.findall(r"\.badge\.\w+ { background: (#\w+); color: (#\w+) }", style)
    assert len(badges) == 3
    for background, ink in badges:
        assert contrast(background, "#ffffff" if ink == "#fff" else ink) >= 4.5


def test_private_numbers_are_stamped_and_absent_unless_given():
    plain, stamped = render_report([make_view()]), render_report([make_view()], make_private_part())
    assert "for publication" not in plain
    assert "This page is computed from releases and public text alone" in plain
    assert stamped.count("Private: not for publication") == 2
    assert "PRIVATE – release report" in stamped
    shown = ParsedPage(stamped).text
    assert shown.count(WARNING) >= 3
    for words in (
        "1.2345",
        "0.9876",
        "∞",
        "NOT private",
        "None of the releases on this page was made by",
    ):
        assert words in shown
        assert words not in ParsedPage(plain).text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_in_a_real_browser_nothing_runs(tmp_path):
    (tmp_path / "report.html").write_text(
        render_report([make_view(ngrams=HOSTILE)]), encoding="utf-8"
    )
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/profile",
    ]
    done = subprocess.run(
        [*command, "--dump-dom", f"file://{tmp_path}/report.html"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    parsed = ParsedPage(done.stdout)
    assert "<title>Release report</title>" in done.stdout
    assert "script" not in parsed.tags
    assert "<script>document.title='stolen'</script>" in parsed.text


def test_a_report_says_where_no_difference_is_certain():
    """Public text inside every interval: the table of differences must not look like findings."""
    release, vocabulary = make_release(epsilon=20)
    sentence = "None of these differences is certain"
    for std, said in ((1.0, True), (1e-12, False)):
        changed = replace(release, probability_std=np.full(release.probabilities.size, std))
        text = render_report([ReleaseView("out", changed, vocabulary.prior)])
        assert (sentence in ParsedPage(text).text) is said
