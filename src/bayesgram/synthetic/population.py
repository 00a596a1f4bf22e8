"""A made-up population: what its people write in private, and public text in the same language, of two kinds.

In:  a number of users and a seed.   Out: Arrow batches of messages (user, text), and of public text: the paragraphs of
articles, and the chat of strangers.
The words are in lexicon.txt, chat.txt and articles.txt; the habits are here. Each user has a random stream,
hashed from (seed, index), so user 17 is the same among 20 users and among 2,000,000.
Does not know its n-gram frequencies in closed form: the truth is the grammar's distribution, which a larger
population with another seed estimates to any precision. Not a source of privacy noise: it is a plain hash.
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
from bayesgram.synthetic.grammar import (
    Keys,
    Tables,
    compile_rules,
    derive,
    read_rules,
    unit,
    write_rows,
)
from bayesgram.text.strings import hash_rows
from bayesgram.text.tokenizer import buffers

MEDIAN_MESSAGES = 5
SPREAD = 1.4  # standard deviation of log messages: 1 user in 600 writes more than 300
MOST_MESSAGES = 5_000
TOPICS_PER_USER = 3  # topics a user likes, perhaps one of them twice
TOPIC_PERSISTENCE = 0.65  # of the messages are on a favourite topic
TOPIC_CONCENTRATION = 0.35  # the more people write, the more they lean to the later topics: by this, for a standard deviation more
NEW = 0.03  # of the messages say something that public text lacks: a product, slang
PLAIN = 0.05  # of the users type without capitals and without a final full stop
ARTICLE_TILT = (
    0.6  # a word of a ranked list is exp(0.6 · N(0, 1)) times as likely in articles as in chat
)
CHAT_TILT = (
    -0.7
)  # the same of public chat: words that articles like are rarer there than in messages
SHORTEST, LONGEST = 3, 7  # sentences in a paragraph
MOST_USERS, MOST_SENTENCES = 10_000_000, 1_000_000_000
PARAGRAPHS = 20_000  # in a batch of articles
POSTS = 50_000  # in a batch of public chat
BELOW_1 = 1 - 2.0**-53  # the largest draw
COUNTRIES = {"de": 0.6, "fr": 0.25, "it": 0.1, "at": 0.05}  # where people live, if anybody asks
ABROAD = 0.1  # of the messages are written in any country
CANARY_COPIES = 200  # how often a canary says its phrase; other secrets are told once
# Whose secret is what: users 1, 4, 9, 16, ... in this order, so that small populations have some too.
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
) = np.arange(14, dtype=np.uint64)

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

    >>> people = Population(users=10, seed=7)
    >>> next(people.messages()).schema.names
    ['user', 'text']
    """

    users: int = 100_000
    seed: int = 7
    batch_users: int = 10_000

    def __post_init__(self) -> None:
        _check("users", self.users, 1, MOST_USERS)
        _check("seed", self.seed, 0, 2**63 - 1)
        _check("batch_users", self.batch_users, 1, 100_000)

    def messages(self) -> Iterator[pa.RecordBatch]:
        """All messages, shuffled within each batch of `batch_users` users: columns user and text."""
        for first in range(0, self.users, self.batch_users):
            users = np.arange(first, min(first + self.batch_users, self.users))
            keys = self._user_keys(users)
            who, roots, text_keys, topics = _plan(users, keys)
            plain = unit(derive(keys, _STYLE)) < PLAIN
            texts = _chat().write(text_keys, keys[who], roots, topics, plain=plain[who])
            yield pa.record_batch({"user": user_names(keys[who]), "text": texts})

    def public_text(self, sentences: int = 300_000) -> Iterator[pa.RecordBatch]:
        """Articles with this many sentences in all: column text, one paragraph a row."""
        _check("sentences", sentences, 1, MOST_SENTENCES)
        articles, first = _articles(), 0
        while sentences:
            paragraphs = np.arange(first, first := first + PARAGRAPHS, dtype=np.uint64)
            keys = derive(derive(np.uint64(self.seed), _PARAGRAPH), paragraphs)
            times = SHORTEST + (unit(derive(keys, _COUNT)) * (LONGEST - SHORTEST + 1)).astype(
                np.int64
            )
            times = np.clip(sentences - (np.cumsum(times) - times), 0, times)
            keys, times = keys[times > 0], times[times > 0]
            roots = np.full(len(keys), articles.rule["sentence"])
            topics = articles.topic(unit(derive(keys, _TOPIC)))
            yield pa.record_batch(
                {"text": articles.write(derive(keys, _WORDS), keys, roots, topics, times=times)}
            )
            sentences -= int(times.sum())

    def public_chat(self, posts: int = 100_000) -> Iterator[pa.RecordBatch]:
        """What strangers post for everybody to read: column text, one post a row; nobody has a secret."""
        _check("posts", posts, 1, 1_000_000_000)
        chat = _public_chat()
        for first in range(0, posts, POSTS):
            numbers = np.arange(first, min(first + POSTS, posts), dtype=np.uint64)
            keys = derive(derive(np.uint64(self.seed), _POST), numbers)
            roots, topics = (
                np.full(len(keys), chat.rule["message"]),
                chat.topic(unit(derive(keys, _TOPIC))),
            )
            yield pa.record_batch({"text": chat.write(derive(keys, _WORDS), keys, roots, topics)})

    @property
    def secrets(self) -> list[Secret]:
        """The secrets of this population, as their users write them."""
        found = []
        for user, rule in _secrets_among(0, self.users):
            keys = self._user_keys(np.array([user]))
            plain = unit(derive(keys, _STYLE)) < PLAIN
            root = np.array([_chat().rule[rule]])
            text = _chat().write(
                derive(keys, _SECRET), keys, root, np.zeros(1, np.int64), plain=plain
            )
            found.append(Secret(user_names(keys)[0].as_py(), text[0].as_py(), rule.split(".")[1]))
        return found

    def _user_keys(self, users: Index) -> Keys:
        keys: Keys = derive(derive(np.uint64(self.seed), _USER), users.astype(np.uint64))
        return keys


def with_countries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The messages with a column `country`: a user's own, mostly. People write alike wherever they are."""
    homes = hash_rows(*buffers(batch["user"].cast(pa.large_binary())))
    messages = derive(homes, hash_rows(*buffers(batch["text"].cast(pa.large_binary()))))
    keys = np.where(
        unit(derive(messages, _LOYAL)) < ABROAD, derive(messages, _TOPIC), derive(homes, _TOPIC)
    )
    places = np.searchsorted(np.cumsum([*COUNTRIES.values()])[:-1], unit(keys), side="right")
    return batch.append_column("country", pa.array([*COUNTRIES]).take(pa.array(places)))


def write_messages(
    path: Path,
    population: Population,
    *,
    files: int = 2,
    progress: Progress | None = None,
    countries: bool = False,
) -> list[Path]:
    """Write the messages to path/part-0.parquet, ...; a user's rows are spread over all of the files."""
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
            batch = with_countries(plain) if countries else plain
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
    """Write the articles as gzipped lines, a paragraph each; the same settings give the same bytes."""
    _write_lines(path, population.public_text(sentences), progress)


def write_public_chat(
    path: Path, population: Population, *, posts: int = 100_000, progress: Progress | None = None
) -> None:
    """The same of public chat, a post each."""
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


@dataclass(frozen=True)
class Register:
    """A grammar made ready: tables, the numbers of its rules, and how likely each topic is, cumulatively."""

    tables: Tables
    rule: dict[str, int]

    def topic(self, u: NDArray[np.float64]) -> Index:
        """The topic at u in [0, 1): an index into the choices of the rule `topic`."""
        return np.searchsorted(self.topic_chances, u, side="right")

    @property
    def topic_chances(self) -> NDArray[np.float64]:
        """How likely each topic is, cumulatively."""
        first, last = self.tables.first_choice[self.rule["topic"] :][:2]
        return self.tables.chance[first:last]

    def write(
        self,
        keys: Keys,
        owners: Keys,
        roots: Index,
        topics: Index,
        *,
        times: Index | None = None,
        plain: NDArray[np.bool_] | None = None,
    ) -> pa.StringArray:
        """Expand one row for each key, straight into Arrow's buffers."""
        times = np.ones(len(keys), np.int64) if times is None else times
        plain = np.zeros(len(keys), np.bool_) if plain is None else plain
        text, ends = write_rows(self.tables, keys, owners, roots, times, topics, plain)
        return pa.StringArray.from_buffers(
            len(keys), pa.py_buffer(ends.data), pa.py_buffer(text.data)
        )


def chat_messages(keys: Keys, owners: Keys, topics: Index) -> pa.StringArray:
    """A message for each random key, in the habits of its owner and on its topic."""
    return _chat().write(keys, owners, np.full(len(keys), _chat().rule["message"]), topics)


def chat_topics() -> NDArray[np.float64]:
    """How likely each topic of chat is, cumulatively."""
    return _chat().topic_chances


@cache
def _chat() -> Register:
    return Register(*compile_rules(read_rules(_file("lexicon.txt"), _file("chat.txt"))))


@cache
def _articles() -> Register:
    return Register(
        *compile_rules(read_rules(_file("lexicon.txt"), _file("articles.txt")), tilt=ARTICLE_TILT)
    )


@cache
def _public_chat() -> Register:
    return Register(
        *compile_rules(read_rules(_file("lexicon.txt"), _file("chat.txt")), tilt=CHAT_TILT)
    )


def _file(name: str) -> Path:
    return Path(__file__).with_name(name)


def _plan(users: Index, keys: Keys) -> tuple[Index, Index, Keys, Index]:
    """Which messages a batch holds, in shuffled order: for each its user, root rule, random key and topic."""
    chat = _chat()
    counts, leanings = amounts(unit(derive(keys, _COUNT)))
    who = np.repeat(np.arange(len(users)), counts)
    roots = np.full(len(who), chat.rule["message"])
    for user, rule in _secrets_among(users[0], users[-1] + 1):
        copies = CANARY_COPIES if "canary" in rule else 1
        who = np.append(who, np.repeat(user - users[0], copies))
        roots = np.append(roots, np.repeat(chat.rule[rule], copies))
    nth = _nth_of_its_user(who)
    message = derive(derive(keys, _MESSAGE)[who], nth)
    secret = roots != chat.rule["message"]
    roots = np.where(~secret & (unit(derive(message, _NEW)) < NEW), chat.rule["new"], roots)
    text_keys = np.where(secret, derive(keys, _SECRET)[who], derive(message, _WORDS))
    order = np.argsort(derive(derive(keys, _ORDER)[who], nth))
    liked = unit(derive(message, _LOYAL)) / TOPIC_PERSISTENCE
    favourite = derive(derive(keys, _LIKES)[who], (liked * TOPICS_PER_USER).astype(np.uint64))
    drawn = unit(np.where(liked < 1, favourite, derive(message, _TOPIC)))
    topics = chat.topic(np.minimum(drawn ** leanings[who], BELOW_1))
    return who[order], roots[order], text_keys[order], topics[order]


def amounts(u: NDArray[np.float64]) -> tuple[Index, NDArray[np.float64]]:
    """How many messages people at these quantiles write, and the power to which their draws of a topic are raised.

    Below 1, for those who write a lot, it moves a draw to the later topics.
    """
    above = ndtri(u)  # standard deviations above the median
    messages = MEDIAN_MESSAGES * np.exp(SPREAD * above)
    return np.clip(messages, 1, MOST_MESSAGES).astype(np.int64), np.exp(
        -TOPIC_CONCENTRATION * above
    )


def _nth_of_its_user(who: Index) -> Keys:
    """0 for a user's first message, 1 for the second, ..."""
    order = np.argsort(who, kind="stable")
    starts = np.searchsorted(who[order], who[order], side="left")
    nth = np.empty(len(who), np.uint64)
    nth[order] = np.arange(len(who)) - starts
    return nth


def _secrets_among(first: int, end: int) -> Iterator[tuple[int, str]]:
    """Users from first to end - 1 who have a secret, and the rule that tells it."""
    for i, kind in enumerate(SECRETS, start=1):
        if first <= i * i < end:
            yield i * i, f"secret.{kind}"


def user_names(keys: Keys) -> pa.StringArray:
    """Opaque ids of 16 hexadecimal digits, one for one with the keys."""
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
