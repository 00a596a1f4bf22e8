"""A made-up population: its private messages, and two kinds of public text in the same language.

In: a number of users and a seed. Out: Arrow batches of messages (user, text), and of public text:
the paragraphs of articles, and the chat of strangers.

The words are in lexicon.txt, chat.txt and articles.txt; the habits are here. Each user has a
random stream, hashed from (seed, index), so user 17 is the same among 20 users and among
2,000,000. N-gram frequencies have no closed form: the truth is the grammar's distribution, which a
larger population with another seed estimates to any precision. Random numbers are a plain hash,
not privacy noise.

The constants below make a plausible population; no experiment chose them.
"""

import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesgram.errors import UsageError
from bayesgram.synthetic.grammar import Grammar, Keys, derive, read_rules, unit_interval
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokenizer import buffers

MEDIAN_MESSAGES = 5
LOG_MESSAGES_STD = 1.4  # standard deviation of log messages: 1 user in 600 writes more than 300
MAX_MESSAGES = 5_000
TOPICS_PER_USER = 3  # topics a user likes, perhaps one of them twice
TOPIC_PERSISTENCE = 0.65  # of the messages are on a favourite topic
# How much people who write more lean to the later topics, for each standard deviation more.
TOPIC_CONCENTRATION = 0.35
NEW_SHARE = 0.03  # of the messages say something that public text lacks: a product, slang
PLAIN_SHARE = 0.05  # of the users type without capitals and without a final full stop
# A word of a ranked list is exp(0.6 · N(0, 1)) times as likely in articles as in private chat.
ARTICLE_TILT = 0.6
# The same for public chat: words that articles like are rarer there than in private messages.
CHAT_TILT = -0.7
MIN_PARAGRAPH = 3  # sentences
MAX_PARAGRAPH = 7  # sentences
MAX_USERS = 10_000_000
MAX_SENTENCES = 1_000_000_000
PARAGRAPHS_PER_BATCH = 20_000  # in a batch of articles
POSTS_PER_BATCH = 50_000  # in a batch of public chat
BELOW_1 = 1 - 2.0**-53  # the largest draw
MAX_WEEK = 10_000
# In a week, a user writes with a chance of their own, squared from a uniform draw: a third of them
# do, a few in nearly every week. How much they write varies from week to week.
WEEKLY_ACTIVITY_POWER = 2.0
LOG_WEEKLY_STD = 0.7  # standard deviation of log messages of a user between weeks
# Topics drift slowly, over a year and back: how far, in powers of the draws.
TOPIC_SEASON = 0.4
WEEKS_OF_A_YEAR = 52
COUNTRIES = {"de": 0.6, "fr": 0.25, "it": 0.1, "at": 0.05}  # where people live, if anybody asks
ABROAD_SHARE = 0.1  # of the messages are written in any country
CANARY_COPIES = 200  # how often a canary says its phrase; other secrets are told once
# Whose secret is what: users 1, 4, 9, 16, … in this order, so that small populations have some.
SECRETS = (
    "card",
    "canary.lanterns",
    "password",
    "address",
    "phone",
    "canary.bells",
    "health",
    "code",
    "canary.kites",
)

# The streams that a seed, a user, a message or a paragraph branches into.
(
    _USER,
    _PARAGRAPH,
    _NAME,
    _COUNT,
    _STYLE,
    _ORDER,
    _MESSAGE,
    _LIKES,
    _LOYAL,
    _TOPIC,
    _WORDS,
    _SECRET,
    _POST,
    _NEW,
    _WEEK,
    _ACTIVITY,
    _ACTIVE,
    _AMOUNT,
) = np.arange(18, dtype=np.uint64)

Index = NDArray[np.int64]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Secret:
    """What only this user writes: once, or as a "canary" many times, in words that are public."""

    user: str
    text: str
    kind: str


@dataclass(frozen=True)
class Population:
    """`users` people, drawn from `seed`; the same text each time it is asked for.

    Attributes:
        users: How many people there are.
        seed: Which people.
        batch_users: How many of them write one batch of messages.
        week: A week from 1: the same people with the same ids in every week, of whom some write,
            and what they write about drifts slowly. None: all that they ever wrote.

    >>> people = Population(users=10, seed=7)
    >>> next(people.messages()).schema.names
    ['user', 'text']
    """

    users: int = 100_000
    seed: int = 7
    batch_users: int = 10_000
    week: int | None = None

    def __post_init__(self) -> None:
        _check("users", self.users, 1, MAX_USERS)
        _check("seed", self.seed, 0, 2**63 - 1)
        _check("batch_users", self.batch_users, 1, 100_000)
        if self.week is not None:
            _check("week", self.week, 1, MAX_WEEK)

    def messages(self) -> Iterator[pa.RecordBatch]:
        """Yield all messages, shuffled within each batch of users: columns user and text."""
        for first in range(0, self.users, self.batch_users):
            users = np.arange(first, min(first + self.batch_users, self.users))
            keys = self._user_keys(users)
            who, roots, text_keys, topics = _plan_messages(users, keys, self.week)
            plain = unit_interval(derive(keys, _STYLE)) < PLAIN_SHARE
            texts = _chat().write(text_keys, keys[who], roots, topics, plain=plain[who])
            yield pa.record_batch({"user": make_user_ids(keys[who]), "text": texts})

    def public_text(self, sentences: int = 300_000) -> Iterator[pa.RecordBatch]:
        """Yield articles with this many sentences in all: column text, one paragraph a row."""
        _check("sentences", sentences, 1, MAX_SENTENCES)
        articles = _articles()
        first = 0
        while sentences:
            paragraphs = np.arange(first, first := first + PARAGRAPHS_PER_BATCH, dtype=np.uint64)
            keys = derive(derive(np.uint64(self.seed), _PARAGRAPH), paragraphs)
            times = MIN_PARAGRAPH + (
                unit_interval(derive(keys, _COUNT)) * (MAX_PARAGRAPH - MIN_PARAGRAPH + 1)
            ).astype(np.int64)
            times = np.clip(sentences - (np.cumsum(times) - times), 0, times)
            keys = keys[times > 0]
            times = times[times > 0]
            roots = np.full(len(keys), "sentence")
            topics = articles.topic(unit_interval(derive(keys, _TOPIC)))
            yield pa.record_batch(
                {"text": articles.write(derive(keys, _WORDS), keys, roots, topics, times=times)}
            )
            sentences -= int(times.sum())

    def public_chat(self, posts: int = 100_000) -> Iterator[pa.RecordBatch]:
        """Yield what strangers post for everybody to read: column text, one post a row.

        Nobody has a secret.
        """
        _check("posts", posts, 1, 1_000_000_000)
        chat = _public_chat()
        for first in range(0, posts, POSTS_PER_BATCH):
            numbers = np.arange(first, min(first + POSTS_PER_BATCH, posts), dtype=np.uint64)
            keys = derive(derive(np.uint64(self.seed), _POST), numbers)
            roots = np.full(len(keys), "message")
            topics = chat.topic(unit_interval(derive(keys, _TOPIC)))
            yield pa.record_batch({"text": chat.write(derive(keys, _WORDS), keys, roots, topics)})

    @property
    def secrets(self) -> list[Secret]:
        """The secrets of this population, as their users write them."""
        secrets = []
        for user, rule in _secrets_among(0, self.users):
            keys = self._user_keys(np.array([user]))
            plain = unit_interval(derive(keys, _STYLE)) < PLAIN_SHARE
            text = _chat().write(
                derive(keys, _SECRET), keys, np.array([rule]), np.zeros(1, np.int64), plain=plain
            )
            secrets.append(
                Secret(make_user_ids(keys)[0].as_py(), text[0].as_py(), rule.split(".")[1])
            )
        return secrets

    def _user_keys(self, users: Index) -> Keys:
        keys: Keys = derive(derive(np.uint64(self.seed), _USER), users.astype(np.uint64))
        return keys


def add_countries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the messages with a column `country`: mostly the user's own.

    People write alike wherever they are.
    """
    homes = hash_rows(*buffers(batch["user"].cast(pa.large_binary())))
    messages = derive(homes, hash_rows(*buffers(batch["text"].cast(pa.large_binary()))))
    keys = np.where(
        unit_interval(derive(messages, _LOYAL)) < ABROAD_SHARE,
        derive(messages, _TOPIC),
        derive(homes, _TOPIC),
    )
    places = np.searchsorted(
        np.cumsum([*COUNTRIES.values()])[:-1], unit_interval(keys), side="right"
    )
    return batch.append_column("country", pa.array([*COUNTRIES]).take(pa.array(places)))


def write_messages(
    path: Path,
    population: Population,
    *,
    files: int = 2,
    progress: Progress | None = None,
    countries: bool = False,
) -> list[Path]:
    """Write the messages to path/part-0.parquet, …; return the paths.

    Args:
        path: A new or empty folder.
        population: The people.
        files: How many; a user's rows are spread over all of them.
        progress: Called with the number of messages that are written.
        countries: Whether to add a column `country`.
    """
    _check("files", files, 1, 1_000)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError.for_argument("path", path, "exists already; give a new or empty folder")
    path.mkdir(parents=True, exist_ok=True)
    paths = [path / f"part-{i}.parquet" for i in range(files)]
    schema = pa.schema(
        {name: pa.string() for name in ("user", "text", *(["country"] if countries else []))}
    )
    done = 0
    with ExitStack() as stack:
        writers = [stack.enter_context(pq.ParquetWriter(part, schema)) for part in paths]
        for plain in population.messages():
            batch = add_countries(plain) if countries else plain
            edges = np.linspace(0, batch.num_rows, files + 1).astype(int)
            for writer, start, end in zip(writers, edges[:-1], edges[1:], strict=True):
                writer.write_batch(batch.slice(start, end - start))
            done += batch.num_rows
            if progress:
                progress(done)
    return paths


def write_public_text(
    path: Path,
    population: Population,
    *,
    sentences: int = 300_000,
    progress: Progress | None = None,
) -> None:
    """Write articles as gzipped lines, a paragraph each; the same settings give the same bytes.

    Args:
        path: A new file.
        population: The people; the seed decides the text.
        sentences: How many sentences, in all.
        progress: Called with the number of paragraphs that are written.
    """
    _write_lines(path, population.public_text(sentences), progress)


def write_public_chat(
    path: Path, population: Population, *, posts: int = 100_000, progress: Progress | None = None
) -> None:
    """Write public chat as gzipped lines, a post each; the same settings give the same bytes.

    Args:
        path: A new file.
        population: The people; the seed decides the text.
        posts: How many posts.
        progress: Called with the number of posts that are written.
    """
    _write_lines(path, population.public_chat(posts), progress)


def _write_lines(path: Path, batches: Iterator[pa.RecordBatch], progress: Progress | None) -> None:
    if path.exists():
        raise UsageError.for_argument("path", path, "exists already; give a new name or remove it")
    done = 0
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=5, fileobj=raw, mtime=0) as out,
    ):
        for batch in batches:
            out.write("".join(f"{text}\n" for text in batch["text"].to_pylist()).encode())
            done += batch.num_rows
            if progress:
                progress(done)


def write_chat_messages(keys: Keys, owners: Keys, topics: Index) -> pa.StringArray:
    """Return a message for each random key, in the habits of its owner and on its topic.

    Args:
        keys: The random keys of the messages.
        owners: The keys of their owners.
        topics: Their topics.
    """
    return _chat().write(keys, owners, np.full(len(keys), "message"), topics)


def cumulative_topic_chances() -> NDArray[np.float64]:
    """Return how likely each topic of chat is, cumulatively."""
    return _chat().topic_chances


@cache
def _chat() -> Grammar:
    return Grammar(read_rules(_file("lexicon.txt"), _file("chat.txt")))


@cache
def _articles() -> Grammar:
    return Grammar(read_rules(_file("lexicon.txt"), _file("articles.txt"), tilt=ARTICLE_TILT))


@cache
def _public_chat() -> Grammar:
    return Grammar(read_rules(_file("lexicon.txt"), _file("chat.txt"), tilt=CHAT_TILT))


def _file(name: str) -> Path:
    return Path(__file__).with_name(name)


def _plan_messages(
    users: Index, keys: Keys, week: int | None
) -> tuple[Index, NDArray[np.str_], Keys, Index]:
    """Return the messages of a batch, in shuffled order: user, root rule, random key, topic."""
    counts, leanings = draw_activity(unit_interval(derive(keys, _COUNT)))
    message_keys = derive(keys, _MESSAGE)
    if week is not None:
        message_keys = derive(derive(message_keys, _WEEK), np.uint64(week))
        counts = _draw_weekly_counts(counts, keys, message_keys)
        leanings *= np.exp(TOPIC_SEASON * np.sin(2 * np.pi * (week - 1) / WEEKS_OF_A_YEAR))
    who = np.repeat(np.arange(len(users)), counts)
    roots = np.full(len(who), "message")
    secrets = _secrets_among(users[0], users[-1] + 1) if week in {None, 1} else ()
    for user, rule in secrets:
        copies = CANARY_COPIES if "canary" in rule else 1
        who = np.append(who, np.repeat(user - users[0], copies))
        roots = np.append(roots, np.repeat(rule, copies))
    nth = _nth_of_its_user(who)
    message = derive(message_keys[who], nth)
    secret = roots != "message"
    new = ~secret & (unit_interval(derive(message, _NEW)) < NEW_SHARE)
    roots = np.where(new, "new", roots)
    text_keys = np.where(secret, derive(keys, _SECRET)[who], derive(message, _WORDS))
    order = np.argsort(derive(derive(keys, _ORDER)[who], nth))
    liked = unit_interval(derive(message, _LOYAL)) / TOPIC_PERSISTENCE
    favourite = derive(derive(keys, _LIKES)[who], (liked * TOPICS_PER_USER).astype(np.uint64))
    draws = unit_interval(np.where(liked < 1, favourite, derive(message, _TOPIC)))
    topics = _chat().topic(np.minimum(draws ** leanings[who], BELOW_1))
    return who[order], roots[order], text_keys[order], topics[order]


def _draw_weekly_counts(typical: Index, keys: Keys, week_keys: Keys) -> Index:
    """Return how many messages each user writes in a week; 0 for most of them.

    Args:
        typical: How many they write when they do.
        keys: The random keys of the users.
        week_keys: The random keys of the users in this week.
    """
    activity = unit_interval(derive(keys, _ACTIVITY)) ** WEEKLY_ACTIVITY_POWER
    is_active = unit_interval(derive(week_keys, _ACTIVE)) < activity
    factors = np.exp(LOG_WEEKLY_STD * ndtri(unit_interval(derive(week_keys, _AMOUNT))))
    counts = np.clip(np.round(typical * factors), 1, MAX_MESSAGES).astype(np.int64)
    return np.where(is_active, counts, 0)


def draw_activity(u: NDArray[np.float64]) -> tuple[Index, NDArray[np.float64]]:
    """Return how many messages people at these quantiles write, and how they lean to topics.

    Returns:
        The numbers of messages, and the powers to which draws of a topic are raised: below 1, for
        those who write a lot, it moves a draw to the later topics.
    """
    deviation = ndtri(u)  # standard deviations above the median
    messages = MEDIAN_MESSAGES * np.exp(LOG_MESSAGES_STD * deviation)
    leanings = np.exp(-TOPIC_CONCENTRATION * deviation)
    return np.clip(messages, 1, MAX_MESSAGES).astype(np.int64), leanings


def _nth_of_its_user(who: Index) -> Keys:
    """Return 0 for a user's first message, 1 for the second, …"""
    order = np.argsort(who, kind="stable")
    starts = np.searchsorted(who[order], who[order], side="left")
    nth = np.empty(len(who), np.uint64)
    nth[order] = np.arange(len(who)) - starts
    return nth


def _secrets_among(first: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield users from first to end − 1 who have a secret, and the rule that writes it."""
    for i, kind in enumerate(SECRETS, start=1):
        if first <= i * i < end:
            yield i * i, f"secret.{kind}"


def make_user_ids(keys: Keys) -> pa.StringArray:
    """Return opaque ids of 16 hexadecimal digits, one for one with the keys."""
    octets = derive(keys, _NAME).astype(">u8").view(np.uint8).reshape(-1, 1)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[np.hstack([octets >> 4, octets & 15])]
    ends = np.arange(0, 16 * len(keys) + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(keys), pa.py_buffer(ends.data), pa.py_buffer(digits.data)
    )


def _check(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or not low <= value <= high:
        raise UsageError.for_argument(
            name, repr(value), f"needs a whole number from {low:,} to {high:,}."
        )
