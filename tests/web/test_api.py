"""What the page asks for, asked politely and otherwise."""

import io
import json
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.planning import simulation
from bayesgram.private.clipping import UNITS
from bayesgram.public.vocabulary import extend_vocabulary
from bayesgram.releases.provenance import DiscoveryClaim
from bayesgram.web.api import SCRIPTS
from bayesgram.web.guard import HEADERS, AccessPolicy, RateLimiter
from helpers.hypothesis_profiles import examples
from helpers.web_catalogue import (
    IMAGE,
    SCRIPT,
    make_catalogue,
    make_client,
    make_grown_releases,
    make_many_releases,
    make_release,
    make_releases,
    make_releases_with_sources,
    make_vocabulary,
    make_weak_releases,
    with_measurements,
)

FREE = RateLimiter(rate=1e9, burst=1e9)
PLAN = {
    "users": 1e5,
    "ngrams_a_user": 5,
    "unevenness": 1,
    "difference": 1.5,
    "epsilon": 1,
    "delta": 1e-7,
    "size": 60,
}


cached_catalogue = cache(make_catalogue)


@cache
def cached_asker():
    """For tests that Hypothesis calls many times."""
    return make_client(rates=FREE)


@pytest.fixture(scope="module")
def ask():
    return cached_asker()


def test_about_names_releases_and_public_text(ask):
    told = ask("/api/about").json()
    assert [item["name"] for item in told["releases"]] == ["eps-0.1", "eps-1", f"k {SCRIPT}"]
    assert told["releases"][0]["claim"] == "ε = 0.1, δ = 1e-07 (PROVED)"
    assert told["public"]["name"] == "public text"
    assert make_client(public=False)("/api/about").json()["public"] is None


def test_promises_that_protect_little_say_so():
    ask = make_client(rates=FREE, made=make_weak_releases)
    told = ask("/api/about").json()["releases"]
    assert [item["grade"] for item in told] == ["weak", "worthless", None]
    assert [item["claim"] for item in told][1] == "ε = 100, δ = 1e-07 (PROVED, worthless)"
    card = ask("/api/card?release=1").json()
    assert card["warnings"] == [
        "Worthless: ε = 100 allows odds to change by a factor of 2.7e+43: PROVED, and it protects nobody."
    ]
    assert "plus (1 + e^ε)δ = 2.7e+36" in card["meaning"][-1]
    assert ask("/api/card?release=2").json()["warnings"] == []


def test_predictions_side_by_side_with_intervals(ask):
    told = ask("/api/predict", {"text": "Thank you ", "k": 5}).json()
    assert [column["name"] for column in told["columns"]] == [
        "public text",
        "eps-0.1",
        "eps-1",
        f"k {SCRIPT}",
    ]
    public, strong, weak, unsure = (column["words"] for column in told["columns"])
    assert len(public) == len(strong) == 5
    assert all(word["low"] is None for word in public + unsure)
    hot = next(word for word in weak if word["word"] == IMAGE)
    assert hot["low"] < hot["probability"] < hot["high"]
    narrow, wide = ((w["high"] - w["low"]) / w["probability"] for w in (weak[0], strong[0]))
    assert narrow < wide


def test_the_words_of_the_text_count_if_that_is_wished(ask):
    text = "zanzibar zanzibar zanzibar. Thank you "
    without, after, again = (
        ask("/api/predict", {"text": text, "cache": wish}).json() for wish in (False, True, False)
    )
    assert without == again  # nothing is kept
    for column, before in zip(after["columns"], without["columns"], strict=True):
        assert "zanzibar" in [word["word"] for word in column["words"]]
        assert "zanzibar" not in [word["word"] for word in before["words"]]
        assert all(word["low"] is None for word in column["words"])
    assert ask("/api/predict", {"text": text, "cache": 0.5}).status_code == 422


def test_the_word_being_typed_narrows_the_words(ask):
    told = ask("/api/predict", {"text": "thank you Ve"}).json()
    assert told["typed"] == "ve"
    found = [word for column in told["columns"] for word in column["words"]]
    assert found
    assert all(word["word"].startswith("Ve") for word in found)


def test_words_have_the_capitals_of_their_place(ask):
    def found(text):
        words = [
            word
            for column in ask("/api/predict", {"text": text}).json()["columns"][:2]
            for word in column["words"]
        ]
        return {word["word"]: word["low"] for word in words}

    begun, going_on = found(""), found("so ")
    assert {"Thank", "You"} <= set(begun)
    assert "you" in going_on
    assert begun["You"] is not None  # it is looked up as the release has it
    assert "You" in found("you very much. ")
    assert {"YOU"} == set(found("thank YO"))


def test_two_releases_are_compared(ask):
    told = ask("/api/changes?first=0&second=1").json()
    assert "false discovery rate" in told["summary"].lower()
    assert set(told["tables"]) == {"Rose", "Fell", "Words that rose", "Words that fell"}
    assert told["notes"][0].startswith("Counts are clipped")
    rows = [row for table in told["tables"].values() for row in table]
    assert all(set(row) == {"ngram", "before", "after", "change", "fdr"} for row in rows)
    assert told["tables"]["Rose"]
    assert told["tables"]["Words that rose"]
    for title, table in told["tables"].items():
        for row in table:
            verb = "rose" if row["after"] > row["before"] else "fell"
            assert row["change"].startswith(verb)
            assert title in {verb.capitalize(), f"Words that {verb}"}
    unmeasured = ask("/api/changes?first=0&second=2").json()
    assert "no measurements, so that changes can't be told from noise" in unmeasured["summary"]
    assert unmeasured["tables"] == {}
    for wrong in ("first=0&second=0", "first=0&second=99", "first=-1&second=0", "first=a&second=1"):
        assert ask(f"/api/changes?{wrong}").status_code == 422


def test_browsing_pages_through_all_ngrams_once(ask):
    seen, page = [], 1
    while (
        len(seen)
        < (told := ask(f"/api/ngrams?order=2&sort=alphabet&size=20&page={page}").json())["total"]
    ):
        seen += [row["ngram"] for row in told["rows"]]
        page += 1
    assert len(seen) == len(set(seen)) == told["total"] == 66
    assert [ngram.encode() for ngram in seen] == sorted(ngram.encode() for ngram in seen)
    assert ask(f"/api/ngrams?order=2&sort=alphabet&size=20&page={page + 1}").json()["rows"] == []


@pytest.mark.parametrize(
    ("sort", "key"),
    [
        ("probability", lambda row: -row["after"]),
        ("lifted", lambda row: -_moved(row)),
        ("lowered", lambda row: +_moved(row)),
        ("moved", lambda row: -abs(_moved(row))),
    ],
)
def test_sorted_by(ask, sort, key):
    rows = ask(f"/api/ngrams?release=1&sort={sort}&size=100").json()["rows"]
    keys = [key(row) for row in rows]
    assert all(first <= second + 1e-15 for first, second in pairwise(keys))
    assert all(row["interval"][0] <= row["after"] <= row["interval"][1] for row in rows)


def _moved(row):
    ratio = np.log(row["after"] / row["before"])
    return (row["after"] if ratio > 0 else row["before"]) * ratio


def test_search_finds_what_contains_it_and_ignores_case(ask):
    found = ask("/api/ngrams", method="GET").json()["total"]
    rows = ask("/api/ngrams?text=YOU%20%3Cimg&size=100").json()
    assert 0 < rows["total"] < found
    assert all("you <img" in row["ngram"] for row in rows["rows"])
    assert ask("/api/ngrams?text=nothing-like-this").json() == {"total": 0, "rows": []}


def test_without_public_text_nothing_is_compared():
    ask = make_client(public=False)
    row = ask("/api/ngrams").json()["rows"][0]
    assert row["before"] is None
    assert row["clear"] is None
    answer = ask("/api/ngrams?sort=moved")
    assert (answer.status_code, answer.json()["error"]) == (
        422,
        "sort=moved: needs public text; start the page with `bayesgram serve … --vocab`.",
    )
    assert ask("/api/plan").json() == {"possible": False}
    assert (
        ask("/api/plan", PLAN).json()["error"]
        == "plan: needs public text; start the page with `bayesgram serve … --vocab`."
    )


def test_text_that_turns_direction_does_not_reach_the_page(ask):
    rows = ask("/api/ngrams?text=ab&size=100").json()["rows"]
    assert rows
    assert all("\u202e" not in row["ngram"] and "�" in row["ngram"] for row in rows)


def test_card_and_trade_in_plain_words(ask):
    card = ask("/api/card?release=0").json()
    assert card["meaning"][0].startswith("ε = 0.1 limits what anybody can learn about you")
    assert "About 23% of the users" in card["clipping"]
    marks = mark_labels(ask("/api/card/pictures?release=0").json()["norms"])
    assert [label.endswith("scaled down.") for label in marks] == [False, False, True]
    measures = [measure["key"] for measure in ask("/api/trade").json()]
    assert set(measures) == {"1.1", "1.25", "1.5", "2", "4", "learnt"}
    for measure, unit in (("2", "of people's listed text."), ("learnt", "nats from public text.")):
        answer = ask(f"/api/trade/picture?measure={measure}&width=500").json()
        strong, weak = mark_labels(answer["picture"])
        assert strong.startswith("eps-0.1, ε = 0.1, δ = 1e-07 (PROVED): ")
        assert weak.startswith("eps-1, ")
        assert strong.endswith(unit)
        assert answer["silent"] == [f"k {SCRIPT}"]  # it has no ε
        assert answer["picture"][1]["viewBox"].startswith("0 0 500 ")
    assert ask("/api/trade/picture?measure=none").status_code == 422
    assert ask("/api/trade/picture?measure=2&width=9").json()["error"].endswith(" width.")


def mark_labels(tree):
    """What the marks of a picture say of themselves."""
    _, attributes, *children = tree
    own = [attributes["aria-label"]] if attributes.get("class") == "mark" else []
    return own + [
        label for each in children if isinstance(each, list) for label in mark_labels(each)
    ]


def test_the_weights_of_sources_in_words_and_numbers():
    ask = make_client(rates=FREE, made=make_releases_with_sources)
    known, hidden, one = (ask(f"/api/card?release={at}").json() for at in range(3))
    assert (
        known["sources"]
        == "People's text resembles reviews (60% ± 1) and talk (34% ± 1), but hardly wiki (6%)."
    )
    pictures = [ask(f"/api/card/pictures?release={at}").json() for at in range(3)]
    assert mark_labels(pictures[0]["sources"])[:3] == [
        "reviews, trigrams: 60% ± 1.",
        "talk, trigrams: 34% ± 1.",
        "wiki, trigrams: 6% ± 1.",
    ]
    assert "'bar blue'" not in str(pictures[1]["sources"])  # hollow: it may be noise
    assert "sources" not in pictures[2]
    assert hidden["sources"] == "Too noisy to say which public text people's text resembles."
    assert one["sources"] is None
    assert not any("source" in fact for fact in known["facts"])


def add_quality(release):
    details = {
        "coverage": {"3": {"share": 0.173, "std": 0.009}},
        "quality": {"3": {"error_removed": 0.8, "known": 41.0, "known_mass": 0.41}},
        "std_parts": {"3": {"noise": 0.12, "shrinkage": 0.2, "clipping": 0.08}},
    }
    return replace(release, card=replace(release.card, details={**release.card.details, **details}))


def test_the_card_says_how_good_a_release_is():
    def made(words):
        first, second, *_ = make_releases(words)
        return [(first[0], add_quality(first[1])), second]

    ask = make_client(rates=FREE, made=made)
    estimated, silent = (ask(f"/api/card?release={at}").json() for at in range(2))
    assert estimated["quality"][0] == (
        "The vocabulary covers 17% ± 2% of people's trigrams; on those, the release removes an"
        " estimated 80% of public text's error; 41 n-grams are known within a factor of 2."
    )
    assert len(estimated["quality"]) == 3
    assert silent["quality"] == []
    assert not {"coverage", "quality", "std parts"} & set(estimated["facts"])


def test_plan(ask):
    assert ask("/api/plan").json()["largest"] == 69
    told = ask("/api/plan", PLAN).json()
    assert 0 < told["kl"] < told["public_kl"]
    assert told == ask("/api/plan", PLAN).json()
    assert told != ask("/api/plan", {**PLAN, "draw": 1}).json()
    assert told["warnings"] == []
    picture = {"points": [{"epsilon": 1, "kls": [0.2, 0.4]}, {"epsilon": 2, "kls": [0.1]}]}
    drawn = ask("/api/plan/picture", {**picture, "public_kl": 1.5, "width": 400}).json()["picture"]
    assert mark_labels(drawn) == ["ε = 1: KL about 0.3, 0.2 to 0.4.", "ε = 2: KL about 0.1."]
    for wrong in ({"public_kl": -1}, {"public_kl": 1, "width": 9}, {"public_kl": 1, "points": []}):
        assert ask("/api/plan/picture", {**picture, **wrong}).status_code == 422
    (weak,) = ask("/api/plan", {**PLAN, "delta": 1e-3}).json()["warnings"]
    assert weak.startswith("Weak: δ = 0.001 allows everything about ")
    assert simulation.UNITS == UNITS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"users": 1}, "users=1: give a number from 100 to 1e+10."),
        ({"epsilon": 0}, "epsilon=0.0: give a number"),
        ({"delta": 0}, "delta=0: the mechanism needs a delta above 0, such as 1e-7."),
        ({"size": 1000000}, "size=1000000: give a number of n-grams from"),
        ({"draw": -1}, "draw=-1: give a number from 0 to 9."),
        ({"users": "many"}, "out of range or of the wrong kind: users."),
    ],
)
def test_plans_out_of_range(ask, change, words):
    answer = ask("/api/plan", {**PLAN, **change})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(words)


@pytest.mark.parametrize(
    "path",
    [
        "/api/ngrams?size=101",
        "/api/ngrams?page=0",
        "/api/ngrams?page=99999999999999999999999",
        "/api/ngrams?sort=secret",
        "/api/ngrams?release=7",
        "/api/ngrams?release=-1",
        "/api/ngrams?order=9",
        f"/api/ngrams?text={'a' * 101}",
        "/api/card?release=3",
    ],
)
def test_out_of_range_is_one_short_sentence(ask, path):
    answer = ask(path)
    assert answer.status_code == 422
    assert list(answer.json()) == ["error"]
    assert len(answer.json()["error"]) < 100


@pytest.mark.parametrize(
    "body",
    [{"text": "a" * 1001}, {"text": "a", "k": 11}, {"text": "a", "k": 0}, {"text": 3}, [], "x"],
)
def test_predictions_have_limits(ask, body):
    answer = ask("/api/predict", body)
    assert answer.status_code == 422
    assert "aaaa" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/docs",
        "/redoc",
        "/openapi.json",
        "/..%2f..%2fetc/passwd",
        "/api",
        "/static/page.js",
        "/page.py",
    ],
)
def test_there_is_nothing_else(ask, path):
    answer = ask(path)
    assert (answer.status_code, answer.json()) == (404, {"error": "there is nothing here."})


def test_wrong_methods_and_bodies(ask):
    assert ask("/api/about", method="DELETE").status_code == 405
    assert (
        ask(
            "/api/predict", content=b"{not json", headers={"content-type": "application/json"}
        ).status_code
        == 422
    )
    lone = ask(
        "/api/predict",
        content=b'{"text": "thank \\ud800"}',
        headers={"content-type": "application/json"},
    )
    assert lone.status_code in {200, 422}


@given(st.text(max_size=60), st.integers(1, 10))
@examples(60)
def test_any_text_is_answered(text, k):
    answer = cached_asker()(
        "/api/predict",
        content=json.dumps({"text": text, "k": k}),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code in {200, 422}
    if answer.status_code == 200:
        assert all(len(column["words"]) <= k for column in answer.json()["columns"])


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.sampled_from(["moved", "probability", "alphabet"]),
)
@examples(40)
def test_any_search_is_answered(text, sort):
    told = cached_catalogue().items[0].tables[3].page(sort, text, 0, 10)
    assert all(not text or text in row.ngram or not text.isprintable() for row in told.rows)


@pytest.mark.parametrize(
    "path", ["/", "/page.css", "/page.js", "/dom.js", "/icon.svg", "/api/about", "/nothing"]
)
def test_every_answer_has_the_security_headers(ask, path):
    answer = ask(path)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_the_page_loads_only_from_itself(ask):
    html = ask("/").text
    assert "http" not in html
    assert "<style" not in html
    assert " style=" not in html
    assert "onclick" not in html
    for name in SCRIPTS:
        script = ask(f"/{name}").text
        assert "innerHTML" not in script
        assert "http" not in script.replace("http://www.w3.org/2000/svg", "")


def test_a_failure_inside_is_one_sentence(monkeypatch):
    ask = make_client(policy=AccessPolicy())
    monkeypatch.setattr("bayesgram.web.panels.summarize_release", lambda _: 1 / 0)
    answer = ask("/api/about")
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": "something went wrong inside bayesgram."},
    )


def test_the_best_is_proved_protects_and_tells_most(ask):
    assert ask("/api/about").json()["ranking"] == [1, 0, 2]
    assert make_client(rates=FREE, made=make_weak_releases)("/api/about").json()["ranking"] == [
        2,
        0,
        1,
    ]
    told = make_client(rates=FREE, made=make_many_releases)("/api/about").json()
    names = [told["releases"][at]["name"] for at in told["ranking"]]
    assert names[:3] == ["posterior-epsilon-1", "posterior-epsilon-0.1", "gaussian-epsilon-1"]
    assert names[-4:] == ["paper-1", "paper-0.1", "k", "made-none"]


def test_only_the_releases_asked_for_suggest(ask):
    told = ask("/api/predict", {"text": "thank ", "releases": [1, 1]}).json()
    assert [column["name"] for column in told["columns"]] == ["public text", "eps-1"]
    assert ask("/api/predict", {"text": "thank ", "releases": [3]}).status_code == 422


@pytest.mark.parametrize("sort", ["moved", "probability", "public", "sure", "alphabet"])
def test_every_order_goes_the_other_way_too(ask, sort):
    there, back = (
        ask(f"/api/ngrams?sort={sort}&size=100&reverse={way}").json()["rows"]
        for way in ("false", "true")
    )
    assert there == back[::-1]


def test_sorted_by_how_sure_it_is_and_by_public_text(ask):
    rows = ask("/api/ngrams?release=1&sort=sure&size=100").json()["rows"]
    doubt = [(row["interval"][1] - row["interval"][0]) / row["after"] for row in rows]
    assert all(first <= second + 1e-12 for first, second in pairwise(doubt))
    before = [
        row["before"] for row in ask("/api/ngrams?release=1&sort=public&size=100").json()["rows"]
    ]
    assert before == sorted(before, reverse=True)
    told = ask("/api/ngrams?release=2&sort=sure").json()["error"]
    assert told == "sort=sure: this release does not say how accurate it is."


@pytest.mark.parametrize("text", ["", "YOU"])
def test_downloads_are_what_is_shown_all_of_it(ask, text):
    wanted = f"release=1&sort=lifted&reverse=true&order=2&text={text}"
    rows = ask(f"/api/ngrams?{wanted}&size=100").json()["rows"]
    csv, parquet, plain = (
        ask(f"/api/download?{wanted}&kind={kind}") for kind in ("csv", "parquet", "json")
    )
    assert csv.headers["content-disposition"] == 'attachment; filename="eps-1.csv"'
    found = plain.json()
    assert pq.read_table(io.BytesIO(parquet.content)).to_pylist() == found
    assert pa.csv.read_csv(io.BytesIO(csv.content)).num_rows == len(rows) == len(found)
    for row, own in zip(rows, found, strict=True):
        assert (own["public"], own["probability"]) == (row["before"], row["after"])
        assert [own["low"], own["high"]] == row["interval"]
    assert (
        pq.read_schema(io.BytesIO(parquet.content))
        .metadata[b"bayesgram.claim"]
        .decode()
        .endswith("(PROVED)")
    )


def test_downloads_have_what_a_release_knows(ask):
    assert list(ask("/api/download?release=2&kind=json").json()[0]) == [
        "ngram",
        "public",
        "probability",
    ]
    grown = make_client(rates=FREE, made=make_grown_releases, public=False)(
        "/api/download?kind=json&sort=discovered&order=1"
    ).json()
    assert [(row["ngram"], row["origin"]) for row in grown] == [("so", "discovered")]
    name = ask("/api/download?release=2&kind=csv").headers["content-disposition"]
    assert name == 'attachment; filename="k-script-alert-1-script.csv"'
    assert (
        ask("/api/download?kind=exe").json()["error"] == "out of range or of the wrong kind: kind."
    )


def test_public_text_does_not_suggest_what_was_discovered():
    claim = DiscoveryClaim(1.0, 1e-7, "PROVED", reviewed=True)
    new = pa.array(["zanzibar"], pa.large_string())
    grown = extend_vocabulary(make_vocabulary(), new, np.array([-1.0]), claim)
    ask = make_client(rates=FREE, words=grown)
    public, *releases = ask("/api/predict", {"text": "zan"}).json()["columns"]
    assert public == {"name": "public text", "words": []}
    assert ["zanzibar"] in [[word["word"] for word in column["words"]] for column in releases]


def test_the_page_begins_with_the_release_that_has_discoveries():
    told = make_client(rates=FREE, made=lambda words: make_grown_releases(words)[::-1])
    about = told("/api/about").json()
    assert about["releases"][about["defaults"]["release"]]["name"] == "grown"


def test_the_two_that_differ_most_are_shown_first_and_noise_is_no_difference(ask):
    def made(words):
        near = make_release(words, 1.0)
        far = make_release(words, 2.0)
        flat = np.full(len(words), 1 / len(words))
        noise = make_release(words, 0.3, sure=None, mechanism="laplace")
        return [
            ("a", near),
            ("b", replace(near, probabilities=near.probabilities * 1.0)),
            ("far", far),
            ("noise", replace(noise, probabilities=flat)),
            ("weak", make_release(words, 5.0)),
        ]

    assert make_client(rates=FREE, made=made)("/api/about").json()["defaults"]["differing"] == [
        0,
        2,
    ]
    assert ask("/api/about").json()["defaults"]["differing"] == [0, 1]


def test_changes_begin_with_releases_that_belong_together():
    """A chain comes before other releases, segments of one release before all people."""

    def segment(made, name):
        about = {"by": "country", "names": ["de", "fr"], "other": False, "name": name}
        return replace(made, card=replace(made.card, segment=about, answers="a" * 64))

    def made(words):
        whole, first, second, other = (
            with_measurements(make_release(words, epsilon), seed)
            for seed, epsilon in enumerate((1.0, 1.1, 1.2, 3.0))
        )
        unmeasured = make_release(words, 2.5)
        return [
            ("other", other),
            ("unmeasured", unmeasured),
            ("may/all", segment(whole, "all")),
            ("may/de", segment(first, "de")),
            ("may/fr", segment(second, "fr")),
        ]

    about = make_client(rates=FREE, made=made)("/api/about").json()
    assert [release["comparable"] for release in about["releases"]] == [
        True,
        False,
        True,
        True,
        True,
    ]
    assert about["defaults"]["changed"] == [3, 4]
    alone = make_client(rates=FREE, made=lambda words: [("one", make_release(words, 1.0))])
    assert alone("/api/about").json()["defaults"] == {
        "release": 0,
        "differing": [0],
        "changed": [0, 0],
    }


def test_a_plan_starts_with_noisy_numbers_of_the_release(ask):
    first, _, unsure = (release["plan"] for release in ask("/api/about").json()["releases"])
    assert first == {
        "users": 1300.0,
        "ngrams_a_user": 0.23,
        "epsilon": 0.1,
        "delta": 1e-7,
        "size": 69,
    }
    assert unsure is None  # it has no ε
