"""Vocabularies, counts and releases: files of ours, files made elsewhere, and damaged ones.

A vocabulary or a release that is read can be saved, and is the same when it is read again; whatever
shows or uses one does not fail. Counts are those of a plain loop over the rows.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayesgram.audit.runner import load_attacks
from bayesgram.errors import BayesgramError
from bayesgram.lm.export import release_table
from bayesgram.lm.language_model import LanguageModel
from bayesgram.private.counts import MAX_COUNT
from bayesgram.private.counts_io import COLUMNS, COUNTS_FILE, META_FILE, load_counts, save_counts
from bayesgram.private.counts_on_disk import open_counts
from bayesgram.public.public_rows import rows_path
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases import CARD_FILE, DISTRIBUTION_FILE
from bayesgram.releases.release import Release
from bayesgram.reports.report import PrivatePart, render_report
from bayesgram.reports.views import ReleaseView
from bayesgram.text.tokenizer import Tokenizer
from bayesgram.web.panels import card_details
from fuzz.mutations import SECRET, mutated, mutated_json, mutated_table
from fuzz.target import UNREADABLE, Target, check_message, must, says_too_much, scratch
from helpers import web_catalogue

NGRAMS = ["a", "b", "c", "a b", "b a", "b c", "a b c"]
SIZE = len(NGRAMS)


def vocabulary() -> Vocabulary:
    return Vocabulary(
        pa.array(NGRAMS, pa.large_string()), np.array([9, 5, 0, 4, 3, 1, 2]), 3, Tokenizer()
    )


# Vocabularies

METADATA = {
    "bayesgram.tokenizer": (
        "words",
        "words, boundaries",
        "whitespace",
        "characters, case kept",
        "",
        "x",
        "words,",
        "é\0",
    ),
    "bayesgram.order": ("3", "0", "", "x", "-1", "9" * 30),
}


def vocabulary_columns() -> dict[str, pa.Array]:
    return {"ngram": pa.array(NGRAMS, pa.large_string()), "count": pa.array([9, 5, 0, 4, 3, 1, 2])}


def source_columns() -> dict[str, pa.Array]:
    counts = {
        "count_wiki": pa.array([9, 5, 0, 4, 3, 1, 2]),
        "count_talk": pa.array([0, 0, 0, 0, 0, 7, 0]),
    }
    return {
        **vocabulary_columns(),
        **counts,
        "count_x.y-z": pa.array([1, 1, 1, 0, 0, 0, 2**31], pa.uint32()),
    }


@cache
def saved_vocabulary() -> bytes:
    with scratch() as folder:
        vocabulary().save(Path(folder) / "v.parquet")
        return (Path(folder) / "v.parquet").read_bytes()


@cache
def saved_sources() -> bytes:
    with scratch() as folder:
        pq.write_table(pa.table(source_columns()), Path(folder) / "v.parquet")
        Vocabulary.load(Path(folder) / "v.parquet").save(Path(folder) / "v.parquet", force=True)
        return (Path(folder) / "v.parquet").read_bytes()


def row_columns() -> dict[str, pa.Array]:
    return {"hash": pa.array([3, 5, 2**63, 2**64 - 2], pa.uint64())}


@cache
def row_metadata() -> dict[str, Sequence[str]]:
    return {
        "bayesgram.rows": ("1", "1", "1", "2", "one", "-1"),
        "bayesgram.fingerprint": (vocabulary().fingerprint, "another"),
        "bayesgram.salt": ("00000000000000ff", "g", "-1", "1" * 17),
        "bayesgram.limit": ("ffffffffffffffff", "8000000000000000", "", "1" * 17),
        "bayesgram.least": ("8", "0", "x"),
    }


@cache
def saved_rows() -> bytes:
    with scratch() as folder:
        vocabulary().save(Path(folder) / "v.parquet")
        metadata = {key: values[0] for key, values in row_metadata().items()}
        table = pa.table(row_columns()).replace_schema_metadata(metadata)
        pq.write_table(table, rows_path(Path(folder) / "v.parquet"))
        return rows_path(Path(folder) / "v.parquet").read_bytes()


def mutated_rows(random: Random, seeds: Sequence[bytes]) -> bytes:
    if random.random() < 0.3:
        return mutated(random, random.choice(seeds), seeds)
    return mutated_table(random, row_columns(), row_metadata())


def check_rows(data: bytes, folder: Path) -> None:
    """What is read of a file of public rows is what it says, or nothing."""
    (folder / "v.parquet").write_bytes(saved_vocabulary())
    path = rows_path(folder / "v.parquet")
    path.write_bytes(data)
    if says_too_much(path):
        return
    found = Vocabulary.load(folder / "v.parquet").public_rows
    if found is None:
        return
    hashes = sorted(
        {value for value in pq.read_table(path)["hash"].to_pylist() if value < found.limit}
    )
    must(found.hashes.tolist() == hashes, "other hashes than in the file")


def mixed(by_source: list[list[int]], ngrams: list[str]) -> list[Fraction]:
    """What `count` is before it is rounded, by the definition."""
    found = []
    for row, ngram in enumerate(ngrams):
        alike = [other for other, text in enumerate(ngrams) if text.count(" ") == ngram.count(" ")]
        sums = [sum(counts[other] for other in alike) for counts in by_source]
        shares = [
            Fraction(counts[row], total)
            for counts, total in zip(by_source, sums, strict=True)
            if total
        ]
        found.append(sum(sums) * sum(shares, Fraction(0)) / max(len(shares), 1))
    return found


def mutated_vocabulary(random: Random, seeds: Sequence[bytes]) -> bytes:
    if random.random() < 0.3:
        return mutated(random, random.choice(seeds), seeds)
    return mutated_table(random, random.choice((vocabulary_columns, source_columns))(), METADATA)


def check_vocabulary(data: bytes, folder: Path) -> None:
    path = folder / "v.parquet"
    path.write_bytes(data)
    if says_too_much(path):
        return
    found = Vocabulary.load(path)
    table = pq.read_table(path)
    must(found.ngrams.to_pylist() == table["ngram"].to_pylist(), "other n-grams than in the file")
    names = [name for name in table.column_names if name.startswith("count_")]
    must(
        [f"count_{source.name}" for source in found.sources] == names,
        "other sources than in the file",
    )
    columns = [table[name].to_pylist() for name in names or ["count"]]
    must(found.counts_by_source.tolist() == columns, "other counts than in the file")
    exact = mixed(columns, table["ngram"].to_pylist()) if names else columns[0]
    near = (
        abs(count - value) <= 0.5 + float(value) * 1e-14
        for count, value in zip(found.counts.tolist(), exact, strict=True)
    )
    must(all(near), "other counts than the sources' mixture")
    found.save(folder / "again.parquet", force=True)
    again = Vocabulary.load(folder / "again.parquet")
    must(again.fingerprint == found.fingerprint, "saved and loaded, it is another")
    must(
        again.prior_fingerprint == found.prior_fingerprint,
        "saved and loaded, its counts are others",
    )
    must(np.isfinite(found.prior).all(), "a prior that is no number")
    must(0 <= found.unreachable_count <= len(found), "impossible: so many are never found")
    list(found.matcher.match([(pa.array([b"a b c. c"], pa.large_binary()), np.zeros(1, np.int32))]))


# Counts


def counts_columns() -> dict[str, pa.Array]:
    users = ["ann", "ann", f"bob{SECRET}", "cy", "ann", "007", "é"]
    numbers = [1, 2, 3, 1, 5, 1, 2**31 - 1]
    return {
        "user": pa.array(users),
        "ngram": pa.array([0, 3, 2, 6, 0, 1, 5]),
        "count": pa.array(numbers),
    }


@cache
def saved_counts() -> tuple[bytes, bytes]:
    with scratch() as folder:
        pq.write_table(pa.table(counts_columns()), Path(folder) / "made.parquet")
        counts = load_counts(Path(folder) / "made.parquet", vocabulary_size=SIZE)
        save_counts(counts, vocabulary(), Path(folder) / "counts")
        return (Path(folder) / "counts" / COUNTS_FILE).read_bytes(), (
            Path(folder) / "counts" / META_FILE
        ).read_bytes()


def mutated_counts(random: Random, seeds: Sequence[bytes]) -> bytes:
    if random.random() < 0.3:
        return mutated(random, random.choice(seeds), seeds)
    return mutated_table(random, counts_columns(), {"pandas": ("{}", "x")})


def check_counts(data: bytes, folder: Path) -> None:
    path = folder / "c.parquet"
    path.write_bytes(data)
    if says_too_much(path):
        return
    try:
        counts = load_counts(path, vocabulary_size=SIZE)
    except BayesgramError as error:
        check_message(error)
        must(_literal_counts(path) is None, f"refused, though nothing is wrong with it: {error}")
        on_disk = _refused(path)
        fits_no_memory = "more rows than memory can hold" in str(
            error
        )  # which counts on disk do not need
        must(
            on_disk is not None if fits_no_memory else on_disk == str(error),
            "not so where it stays on disk",
        )
        raise
    stays = open_counts(path, vocabulary_size=SIZE)
    for name in ("totals", "users_per_ngram"):
        must(
            getattr(stays, name).tolist() == getattr(counts, name).tolist(),
            f"other {name} where it stays on disk",
        )
    found = {
        (user, ngram): count
        for user, first, last in zip(
            counts.users.to_pylist(), counts.starts[:-1], counts.starts[1:], strict=True
        )
        for ngram, count in zip(
            counts.ngrams[first:last].tolist(), counts.counts[first:last].tolist(), strict=True
        )
    }
    must(found == _literal_counts(path), "other counts than a loop over the rows")


def _refused(path: Path) -> str | None:
    try:
        open_counts(path, vocabulary_size=SIZE)
    except BayesgramError as error:
        return str(error)
    return None


def _literal_counts(path: Path) -> dict[tuple[bytes, int], int] | None:
    """What the rows add up to; None if one of them can't be right."""
    found: dict[tuple[bytes, int], int] = {}
    rows = _literal_rows(path)
    for user, ngram, number in [(None, 0, 0)] if rows is None else rows:
        if user in (None, "") or ngram is None or number is None:
            return None
        if not (0 <= ngram < SIZE and 1 <= number <= MAX_COUNT):
            return None
        key = (str(user).encode(), ngram)
        found[key] = min(found.get(key, 0) + number, MAX_COUNT)
    return found


def _literal_rows(path: Path) -> list[tuple[object, ...]] | None:
    """All rows, if Arrow can read them at once and their types are right; [] only if there are
    none.
    """
    try:
        schema = pq.read_schema(path)
        types = [schema.field(name).type for name in COLUMNS]
        columns = [pq.ParquetFile(path).read(columns=[name])[name].to_pylist() for name in COLUMNS]
        told = pq.read_metadata(path).num_rows
        pq.ParquetFile(path, read_dictionary=["user"]).read(columns=["user"]).validate(
            full=True
        )  # unused ids too
    except UNREADABLE:
        return None
    kind = types[0].value_type if pa.types.is_dictionary(types[0]) else types[0]
    is_id = pa.types.is_integer(kind) or kind in (pa.string(), pa.large_string())
    if not is_id or not all(map(pa.types.is_integer, types[1:])) or {*map(len, columns)} != {told}:
        return None
    return list(zip(*columns, strict=True))


def check_meta(data: bytes, folder: Path) -> None:
    place = folder / "counts"
    place.mkdir(exist_ok=True)
    (place / COUNTS_FILE).write_bytes(saved_counts()[0])
    (place / META_FILE).write_bytes(data)
    counts = load_counts(place, vocabulary_size=SIZE)
    must(len(counts.users) == 5, "users were lost")
    must(isinstance(counts.vocabulary_fingerprint, str), "a fingerprint that is none")


def mutated_from_json(random: Random, seeds: Sequence[bytes]) -> bytes:
    data = random.choice(seeds)
    try:
        return mutated_json(random, json.loads(data))
    except (ValueError, RecursionError):
        return mutated(random, data, seeds)


# Releases


@cache
def saved_releases() -> list[tuple[bytes, bytes]]:
    found = []
    with scratch() as folder:
        words = web_catalogue.make_vocabulary()
        made = [
            *web_catalogue.make_releases(words),
            *web_catalogue.make_releases_with_sources(words)[:1],
        ]
        for number, (_, measured) in enumerate(made):
            # Measurements are a file of their own, which is another target's.
            release = replace(
                measured, measurements=None, card=replace(measured.card, measured=None)
            )
            release.save(Path(folder) / str(number))
            card = json.loads((Path(folder) / str(number) / CARD_FILE).read_text(encoding="utf-8"))
            card["distribution"] = None  # or no other table would be looked at
            found.append(
                (
                    json.dumps(card).encode(),
                    (Path(folder) / str(number) / DISTRIBUTION_FILE).read_bytes(),
                )
            )
    return found


def put_release(folder: Path, card: bytes, distribution: bytes) -> Path:
    place = folder / "release"
    place.mkdir(exist_ok=True)
    (place / CARD_FILE).write_bytes(card)
    (place / DISTRIBUTION_FILE).write_bytes(distribution)
    return place


def check_release(place: Path, *, thoroughly: bool) -> None:
    """Load it, save it, load it again; and do with it what commands do."""
    release = Release.load(place)
    must(str(release.card) != "" and release.card.claim != "", "a card that says nothing")
    again_place = place.with_name("again")
    release.save(again_place, force=True)
    again = Release.load(again_place)
    told = [json.dumps({**each.card.to_json(), "distribution": None}) for each in (release, again)]
    must(told[0] == told[1], "saved and loaded, the card is another")
    must(again.ngrams.equals(release.ngrams), "saved and loaded, the n-grams are others")
    for one, other in (
        (release.probabilities, again.probabilities),
        (release.probability_std, again.probability_std),
    ):
        must(
            (one is None) == (other is None) and (one is None or np.array_equal(one, other)),
            "other numbers",
        )
    release_table(release)
    view = ReleaseView("x", release)
    card_details(view)
    if thoroughly:
        render_report([view])
        model = LanguageModel.from_release(release)
        must(model.score("thank you very much") <= 0, "a probability above 1")


def check_card(data: bytes, folder: Path) -> None:
    number = zlib.crc32(data)
    distribution = saved_releases()[number % 3][1]
    check_release(put_release(folder, data, distribution), thoroughly=number % 20 == 0)


def distribution_columns() -> dict[str, pa.Array]:
    """Small: words and pairs, whose probabilities add up to 1 exactly."""
    ngrams = ["thank", "you", "much", "thank you", "you much"]
    probabilities = pa.array([0.5, 0.25, 0.25, 0.75, 0.25])
    return {
        "ngram": pa.array(ngrams, pa.large_string()),
        "probability": probabilities,
        "standard_deviation": pa.array([0.1, 0.0, 0.01, 0.2, 1e-9]),
    }


def made_distributions() -> list[bytes]:
    return [distribution for _, distribution in saved_releases()]


def mutated_distribution(random: Random, seeds: Sequence[bytes]) -> bytes:
    if random.random() < 0.3:
        return mutated(random, random.choice(seeds), seeds)
    return mutated_table(random, distribution_columns(), {"x": ("y",)})


def check_distribution(data: bytes, folder: Path) -> None:
    number = zlib.crc32(data)
    place = put_release(folder, saved_releases()[number % 3][0], data)
    if not says_too_much(place / DISTRIBUTION_FILE):
        check_release(place, thoroughly=number % 20 == 0)


# Audits


def made_audit() -> list[bytes]:
    """A small one: two findings, and curves of three points."""
    finding = {
        "attack": "likelihood-ratio",
        "neighbour": "without a user",
        "caught": False,
        "sentence": "no violation",
    }
    curve = {"false_alarms": [0.0, 0.5, 1.0], "misses": [1.0, 0.4, 0.0]}
    told = {
        "format": 1,
        "verdict": "no violation",
        "caught": False,
        "mechanism": "posterior",
        "guarantee": "PROVED",
    }
    told |= {
        "epsilon": 1.0,
        "delta": 1e-6,
        "findings": [finding, finding],
        "trade_offs": {"a": curve, "b": curve},
    }
    return [json.dumps(told).encode()]


def check_audit(data: bytes, folder: Path) -> None:
    place = folder / "audit"
    place.mkdir(exist_ok=True)
    (place / "audit.json").write_bytes(data)
    found = load_attacks(place)
    must(
        found.attacked_sentence != "" and isinstance(found.is_about(release_view().card), bool),
        "an audit that says nothing",
    )
    if zlib.crc32(data) % 20 == 0:
        render_report([release_view()], PrivatePart("private", [], [found]))


@cache
def release_view() -> ReleaseView:
    return ReleaseView("x", web_catalogue.make_releases(web_catalogue.make_vocabulary())[0][1])


def targets() -> Iterator[Target]:
    """Tables of ours."""
    yield Target(
        "vocabulary",
        15,
        lambda: [saved_vocabulary(), saved_sources()],
        check_vocabulary,
        mutated_vocabulary,
    )
    yield Target("public-rows", 10, lambda: [saved_rows()], check_rows, mutated_rows)
    yield Target("counts", 15, lambda: [saved_counts()[0]], check_counts, mutated_counts)
    yield Target("counts-meta", 50, lambda: [saved_counts()[1]], check_meta, mutated_from_json)
    yield Target(
        "card", 50, lambda: [card for card, _ in saved_releases()], check_card, mutated_from_json
    )
    yield Target("distribution", 12, made_distributions, check_distribution, mutated_distribution)
    yield Target("audit", 20, made_audit, check_audit, mutated_from_json)
