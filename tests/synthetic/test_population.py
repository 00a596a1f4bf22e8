"""The made-up population: the same from the same seed, and as varied as it claims."""

import gzip
import re
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesgram.errors import UsageError
from bayesgram.synthetic import population
from bayesgram.synthetic.population import (
    CANARY_COPIES,
    COUNTRIES,
    Population,
    write_messages,
    write_public_chat,
    write_public_text,
)


def by_user(population):
    """Each user's messages, sorted; users in the order in which they first appear."""
    texts = defaultdict(list)
    for batch in population.messages():
        for user, text in zip(*(batch[name].to_pylist() for name in ("user", "text")), strict=True):
            texts[user].append(text)
    return {user: sorted(of_user) for user, of_user in texts.items()}


def paragraphs(population, sentences):
    return [
        text for batch in population.public_text(sentences) for text in batch["text"].to_pylist()
    ]


def posts(population, number):
    return [text for batch in population.public_chat(number) for text in batch["text"].to_pylist()]


def words(text):
    return re.findall(r"[\w']+", text.lower())


def test_the_same_seed_gives_the_same_batches():
    first, second = (
        pa.Table.from_batches(Population(users=50, seed=3).messages()) for _ in range(2)
    )
    assert first.equals(second)
    assert paragraphs(Population(seed=3), 100) == paragraphs(Population(seed=3), 100)


def test_another_seed_gives_other_users_and_other_text():
    one, two = by_user(Population(users=50, seed=1)), by_user(Population(users=50, seed=2))
    assert not one.keys() & two.keys()
    assert paragraphs(Population(seed=1), 100) != paragraphs(Population(seed=2), 100)


def test_the_first_50_users_of_100_are_those_of_200():
    fifty, hundred, more = (by_user(Population(users=n, seed=7)) for n in (50, 100, 200))
    assert fifty.items() <= hundred.items() <= more.items()


# --- Weeks ---


def test_in_every_week_the_same_people_write_something_else():
    everybody = by_user(Population(users=400, seed=7)).keys()
    weeks = [by_user(Population(users=400, seed=7, week=week)) for week in (1, 2, 3)]
    for week in weeks:
        assert week.keys() <= everybody
        assert 0.2 < len(week) / 400 < 0.5
    both = weeks[0].keys() & weeks[1].keys()
    assert len(both) > 50
    assert sum(weeks[0][user] == weeks[1][user] for user in both) < 5
    assert by_user(Population(users=200, seed=7, week=2)).items() <= weeks[1].items()


def test_some_write_in_most_weeks_and_most_in_few():
    weeks = [by_user(Population(users=300, seed=7, week=week)).keys() for week in range(1, 21)]
    active = Counter(user for week in weeks for user in week)
    assert sum(times >= 15 for times in active.values()) > 20
    assert sum(active[user] <= 5 for user in active) + (300 - len(active)) > 120


def test_topics_drift_slowly_over_a_year_and_back():
    users = np.arange(20_000)
    keys = Population(users=20_000)._user_keys(users)

    def mean_topic(week):
        *_, topics = population._plan_messages(users, keys, week)
        return topics.mean()

    first, second, autumn, spring, next_year = map(mean_topic, (1, 2, 14, 40, 53))
    assert autumn < 0.95 * first < 1.05 * first < spring
    assert abs(second - first) < 0.3 * abs(autumn - first)
    assert abs(next_year - first) < 0.3 * abs(autumn - first)


def test_secrets_are_told_in_the_first_week_alone():
    secrets = {secret.text for secret in Population(users=100).secrets}
    for week, expected in ((1, secrets), (2, set())):
        texts = by_user(Population(users=100, week=week)).values()
        assert secrets & {text for some in texts for text in some} == expected


def test_there_is_no_week_0():
    with pytest.raises(UsageError, match="from 1 to 10,000"):
        Population(week=0)


def test_batches_cover_every_user_once_whatever_their_size():
    together, apart = Population(users=25, seed=7), Population(users=25, seed=7, batch_users=10)
    batches = [set(batch["user"].to_pylist()) for batch in apart.messages()]
    assert [len(users) for users in batches] == [10, 10, 5]
    assert len(set.union(*batches)) == 25
    assert by_user(together) == by_user(apart)


def test_the_start_of_the_public_text_does_not_depend_on_its_length():
    assert paragraphs(Population(), 1_000)[:100] == paragraphs(Population(), 2_000)[:100]


@pytest.mark.parametrize("sentences", [1, 4, 1_000])
def test_public_text_has_the_sentences_asked_for(sentences, monkeypatch):
    monkeypatch.setattr(
        "bayesgram.synthetic.population.PARAGRAPHS_PER_BATCH", 60
    )  # several batches
    whole = paragraphs(Population(), 2_000)
    part = paragraphs(Population(), sentences)
    assert part[:-1] == whole[: len(part) - 1]
    assert whole[len(part) - 1].startswith(part[-1])
    assert len(part) == pytest.approx(sentences / 5, rel=0.1, abs=1)


def test_a_few_users_write_a_great_deal():
    counts = np.concatenate(
        [batch["user"].value_counts().field("counts") for batch in Population(20_000).messages()]
    )
    assert 4 <= np.median(counts) <= 6
    assert counts.min() == 1
    assert counts.max() > 800
    top = np.sort(counts)[-len(counts) // 100 :]
    assert top.sum() > 0.12 * counts.sum()  # 1% of the users, more than a tenth of the text


def test_a_user_s_messages_are_scattered_over_a_batch():
    users = next(Population(users=200).messages())["user"].to_pylist()
    runs = 1 + sum(a != b for a, b in pairwise(users))
    assert runs > 0.5 * len(users)


def test_text_is_valid_utf8_with_capitals_and_some_of_it_is_not_ascii():
    texts = [text for of_user in by_user(Population(users=1_000)).values() for text in of_user]
    for batch in (*Population(users=1_000).messages(), *Population().public_text(2_000)):
        batch.validate(full=True)
    joined = "\n".join(texts)
    assert {"é", "£"} <= set(joined)
    assert "  " not in joined
    assert " ." not in joined
    assert 0.9 < np.mean([not text[0].islower() for text in texts]) < 1


def test_about_one_user_in_twenty_types_without_capitals_and_full_stops():
    people = by_user(Population(users=4_000)).values()
    plain = np.mean(
        [
            all(t == t.lower() and not t.endswith(".") for t in texts)
            for texts in people
            if len(texts) > 9
        ]
    )
    assert 0.035 < plain < 0.065


def test_messages_are_varied_and_share_their_language_with_articles():
    private = Counter(
        words(" ".join(t for texts in by_user(Population(users=2_000)).values() for t in texts))
    )
    public = Counter(words(" ".join(paragraphs(Population(), 10_000))))
    assert len(private) > 1_500
    assert len(public) > 1_500
    assert sum(n for word, n in private.items() if word in public) > 0.9 * private.total()


def test_public_chat_is_the_same_from_the_same_seed_whatever_its_length(monkeypatch):
    whole = posts(Population(seed=3), 500)
    monkeypatch.setattr("bayesgram.synthetic.population.POSTS_PER_BATCH", 60)  # several batches
    assert posts(Population(seed=3), 200) == whole[:200]
    assert len(posts(Population(seed=3), 121)) == 121
    assert not set(posts(Population(seed=4), 500)) >= set(whole)


def test_people_write_more_like_public_chat_than_like_articles_and_not_quite_like_either():
    private = Counter(
        words(" ".join(t for texts in by_user(Population(users=2_000)).values() for t in texts))
    )
    articles = Counter(words(" ".join(paragraphs(Population(), 10_000))))
    chat = Counter(words(" ".join(posts(Population(), 10_000))))
    assert likeness(private, articles) < likeness(private, chat) < 0.98


def likeness(one, other):
    """The overlap of two distributions over words, from 0 to 1."""
    return sum(min(count / one.total(), other[word] / other.total()) for word, count in one.items())


def test_public_chat_has_no_secrets():
    population = Population(users=100, seed=11)
    public = "\n".join(posts(population, 30_000)).lower()
    for secret in population.secrets:
        assert secret.kind == "canary" or set(words(secret.text)) - set(words(public)), secret.kind
        assert secret.kind == "canary" or secret.text.lower() not in public
    assert not re.search(r"49\d\d|\d{5}", public)


def test_secrets_are_in_the_messages_of_their_users_and_nowhere_in_public():
    population = Population(users=100, seed=11)
    people, public = by_user(population), "\n".join(paragraphs(population, 30_000)).lower()
    public_words = set(words(public))
    assert [secret.kind for secret in population.secrets[:4]] == [
        "card",
        "canary",
        "password",
        "address",
    ]
    for secret in population.secrets:
        writers = {user for user, texts in people.items() if secret.text in texts}
        assert writers == {secret.user}
        copies = people[secret.user].count(secret.text)
        if secret.kind == "canary":
            assert copies == CANARY_COPIES
            assert secret.text.lower() in public  # rare, but public
        else:
            assert copies == 1
            own = set(words(secret.text)) - public_words
            assert own, secret.kind  # words or numbers that no article has
    assert not re.search(
        r"49\d\d|\d{5}", public
    )  # numbers of cards, phones and alarms cannot be spelt there


def test_a_smaller_population_keeps_its_part_of_the_secrets():
    few, many = Population(users=10).secrets, Population(users=1_000).secrets
    assert len(few) == 3
    assert many[:3] == few
    assert Population(users=1).secrets == []


def test_files_hold_what_the_population_writes(tmp_path):
    population, done = Population(users=30, batch_users=10), []
    paths = write_messages(tmp_path / "messages", population, files=3, progress=done.append)
    written = pl.concat([pl.read_parquet(path) for path in paths])
    expected = pl.from_arrow(pa.Table.from_batches(population.messages()))
    assert written.sort("user", "text").equals(expected.sort("user", "text"))
    assert all(pq.read_metadata(path).num_rows for path in paths)
    assert done == sorted(done)
    assert done[-1] == len(expected)


def test_people_have_a_country_and_some_write_in_two(tmp_path):
    paths = write_messages(tmp_path / "messages", Population(users=2000), countries=True)
    written = pl.concat([pl.read_parquet(path) for path in paths])
    assert written.columns == ["user", "text", "country"]
    shares = dict(
        written.group_by("country").len().with_columns(pl.col("len") / len(written)).iter_rows()
    )
    assert shares == pytest.approx(COUNTRIES, abs=0.1)
    several = written.group_by("user").agg(pl.col("country").n_unique())["country"] > 1
    assert 0.1 < several.mean() < 0.9


def test_public_files_are_the_same_byte_for_byte(tmp_path):
    one, two, done = tmp_path / "one.txt.gz", tmp_path / "two.txt.gz", []
    write_public_text(one, Population(), sentences=500, progress=done.append)
    write_public_text(two, Population(), sentences=500)
    assert one.read_bytes() == two.read_bytes()
    lines = gzip.decompress(one.read_bytes()).decode().splitlines()
    assert lines == paragraphs(Population(), 500)
    assert done == [len(lines)]
    write_public_chat(tmp_path / "chat.txt.gz", Population(), posts=50)
    assert gzip.decompress((tmp_path / "chat.txt.gz").read_bytes()).decode().splitlines() == posts(
        Population(), 50
    )


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "here").write_text("mine")
    with pytest.raises(UsageError, match="exists already; give a new or empty folder"):
        write_messages(tmp_path, Population(users=5))
    with pytest.raises(UsageError, match="exists already; give a new name or remove it"):
        write_public_text(tmp_path / "here", Population(), sentences=5)
    with pytest.raises(UsageError, match="posts=0: needs a whole number from 1 to"):
        posts(Population(), 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"users": 0}, "users=0: needs a whole number from 1 to 10,000,000."),
        ({"users": 10_000_001}, "users=10000001: needs a whole number from 1 to 10,000,000."),
        ({"users": 2.5}, "users=2.5: needs a whole number from 1 to 10,000,000."),
        ({"seed": -1}, "seed=-1: needs a whole number from 0 to 9,223,372,036,854,775,807."),
        ({"batch_users": 0}, "batch_users=0: needs a whole number from 1 to 100,000."),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        Population(**settings)
