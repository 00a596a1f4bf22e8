"""A release as files for keyboards, search boxes, spell checkers and dataset hubs.

Four formats, each as the program that reads it publishes it:

* AOSP word lists (`.combined`), which dicttool makes keyboard dictionaries of. Each word has a
  number f: 255 is probability 1, and one less divides it by 1.15. A bigram has the f of its last
  word after its first one.
* Suggestions: a line `suggestion<TAB>weight` for Lucene's FileDictionary, or a completion document
  of Elasticsearch and OpenSearch for each line. The weight is the released count, rounded, from 1.
* Hunspell: a `.dic` and an `.aff` file.
* A dataset folder for a hub: one Parquet file for each order, card.json, and a README.md with the
  claims of the release's card and no others.

All of it is post-processing. <s> and </s> are no words: n-grams with them are left out, but for the
dataset folder, which has all rows. What a format can't hold is left out and counted.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayesgram.arrays import Bools, Floats
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io.atomic import write_file_atomically, write_folder_atomically
from bayesgram.lm.export import release_table
from bayesgram.releases import CARD_FILE
from bayesgram.releases.release import FORMAT, Release
from bayesgram.text.blocklist import NO_BLOCKLIST, Blocklist
from bayesgram.text.ngrams import END, MAX_ORDER, START
from bayesgram.version import VERSION

# The scale of AOSP's dictionaries/sample.combined. 0 means profanity, so no word has it.
AOSP_MAX_FREQUENCY = 255
AOSP_MIN_FREQUENCY = 1
AOSP_LOG_STEP = float(np.log(1.15))
# Keyboards hold words of up to 48 code points (MAX_WORD_LENGTH); the last is left for the end.
AOSP_MAX_LETTERS = 47
MAX_WEIGHT = 2**31 - 1  # of a completion document; Lucene's weights are larger
# Hunspell refuses words of 100 characters, and of 256 bytes. A test asks it about words up to here.
HUNSPELL_MAX_LETTERS = 90
README = "README.md"
_LOCALE = re.compile(r"[a-z]{2,3}([_-][A-Za-z0-9]{2,8}){0,3}")


class SuggestFormat(StrEnum):
    """The programs that suggestions are written for."""

    LUCENE = "lucene"
    ELASTICSEARCH = "elasticsearch"


@dataclass(frozen=True)
class Written:
    """How many n-grams were written, and how many the format can't hold."""

    ngrams: int
    unwritable: int = 0


def check_locale(locale: str) -> str:
    """Return the locale unchanged.

    >>> check_locale("pt_BR")
    'pt_BR'

    Raises:
        UsageError: If it is not a language with, perhaps, a region.
    """
    if not _LOCALE.fullmatch(locale):
        raise UsageError.for_argument(
            "locale", repr(locale), "must be a language such as en, or with a region, en_US."
        )
    return locale


# --- AOSP ---


def write_aosp(
    release: Release,
    path: str | Path,
    *,
    locale: str = "en",
    casing: Mapping[str, str] | None = None,
    min_count: int | None = None,
    block: Blocklist = NO_BLOCKLIST,
    date: int = 0,
    version: int = 1,
    force: bool = False,
) -> Written:
    """Write an AOSP word list, with bigrams where the release has them.

    Args:
        release: A release that has words.
        path: The file, `.combined`.
        locale: The language, such as en or en_US.
        casing: How words are written that are not in lower case (`CaseCounter.casing`).
        min_count: Leaves out n-grams whose count, less two deviations, is below it.
        block: Words whose n-grams are left out.
        date: Of the header, in seconds since 1970. Fixed unless it is given, so that the same
            release gives the same bytes.
        version: Of the header.
        force: Whether an existing file is replaced.

    Raises:
        UsageError: If the release has no words.
    """
    check_locale(locale)
    table = _most_probable_first(_table_of_words(release, min_count, block))
    orders = table["order"].to_numpy()
    words = table.filter(pa.array(orders == 1))
    is_writable = _aosp_mask(words["ngram"])
    unwritable_words = set(words["ngram"].filter(pa.array(~is_writable)).to_pylist())
    words = words.filter(pa.array(is_writable))
    _require_rows(words)
    counts = dict(zip(words["ngram"].to_pylist(), words["count"].to_pylist(), strict=True))
    spellings = _spell(list(counts), casing)
    frequencies = _aosp_frequencies(words["probability"].to_numpy())

    bigrams = table.filter(pa.array(orders == 2))
    pairs = [tuple(ngram.split(" ")) for ngram in bigrams["ngram"].to_pylist()]
    unwritable_pairs = sum(not unwritable_words.isdisjoint(pair) for pair in pairs)
    followers = _followers(pairs, bigrams["count"].to_numpy(), counts)

    bigram_count = 0
    with (
        write_file_atomically(path, force=force) as aside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.write(_aosp_header(release, locale, date, version))
        for word, frequency in zip(counts, frequencies, strict=True):
            file.write(f" word={spellings[word]},f={frequency}\n")
            for second, second_frequency in followers.get(word, ()):
                file.write(f"  bigram={spellings[second]},f={second_frequency}\n")
                bigram_count += 1
    return Written(len(words) + bigram_count, len(unwritable_words) + unwritable_pairs)


def _followers(
    pairs: Sequence[tuple[str, ...]], pair_counts: Floats, counts: Mapping[str, float]
) -> dict[str, list[tuple[str, int]]]:
    """Return what follows each word, with its f, in the order of the pairs.

    A bigram whose words are not both in the list has no place in the format.
    """
    is_listed = np.array([first in counts and second in counts for first, second in pairs], bool)
    listed_pairs = [pair for pair, keep in zip(pairs, is_listed.tolist(), strict=True) if keep]
    first_counts = np.array([counts[first] for first, _ in listed_pairs])
    # Both are noisy, so the ratio can exceed 1; and a word may have a count of 0.
    ratios = np.divide(
        pair_counts[is_listed],
        first_counts,
        where=first_counts > 0,
        out=np.zeros(len(first_counts)),
    )
    followers: dict[str, list[tuple[str, int]]] = {}
    frequencies = _aosp_frequencies(np.minimum(ratios, 1.0))
    for (first, second), frequency in zip(listed_pairs, frequencies, strict=True):
        followers.setdefault(first, []).append((second, frequency))
    return followers


def _aosp_frequencies(probabilities: Floats) -> list[int]:
    with np.errstate(divide="ignore"):
        steps = np.log(probabilities) / AOSP_LOG_STEP
    frequencies = np.clip(AOSP_MAX_FREQUENCY + steps, AOSP_MIN_FREQUENCY, AOSP_MAX_FREQUENCY)
    return [int(frequency) for frequency in np.rint(frequencies)]


def _aosp_header(release: Release, locale: str, date: int, version: int) -> str:
    """Return the first line. No value may have a comma, an equals sign or a colon."""
    claim = release.card.claim.replace(" = ", " ").replace(", ", "; ")
    description = re.sub(r"[,=:\s]+", " ", f"Bayesgram release; {claim}")
    name = locale.lower().replace("-", "_")
    return (
        f"dictionary=main:{name},locale={locale.replace('-', '_')},description={description},"
        f"date={date},version={version}\n"
    )


def _aosp_mask(words: pa.ChunkedArray) -> Bools:
    lengths = pc.utf8_length(words).to_numpy()
    # dicttool cuts lines at commas, and fields at the equals sign.
    has_bad = _matches(words, r"[,=\pZ\pC]", allow_joiners=True)
    writable: Bools = ~has_bad & (lengths >= 1) & (lengths <= AOSP_MAX_LETTERS)
    return writable


# --- Suggestions ---


def write_suggest(
    release: Release,
    path: str | Path,
    *,
    for_program: SuggestFormat = SuggestFormat.LUCENE,
    min_count: int | None = None,
    block: Blocklist = NO_BLOCKLIST,
    force: bool = False,
) -> Written:
    """Write suggestions with integer weights, the heaviest first.

    Args:
        release: The release; n-grams of all orders become suggestions.
        path: The file.
        for_program: Lucene (tab-separated) or Elasticsearch (JSON lines).
        min_count: Leaves out n-grams whose count, less two deviations, is below it.
        block: Words whose n-grams are left out.
        force: Whether an existing file is replaced.
    """
    table = _select(release, min_count, block)
    # Lines end at line breaks, fields at tabs; completion fields refuse control characters.
    unwritable = _matches(table["ngram"], r"\p{Cc}") | (
        pc.utf8_length(table["ngram"]).to_numpy() < 1
    )
    table = table.filter(pa.array(~unwritable))
    _require_rows(table)
    order = np.argsort(-table["count"].to_numpy(), kind="stable")
    table = table.take(pa.array(order))
    weights = np.clip(np.rint(table["count"].to_numpy()), 1, MAX_WEIGHT).astype(np.int64)
    rows = zip(table["ngram"].to_pylist(), weights.tolist(), strict=True)
    with (
        write_file_atomically(path, force=force) as aside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
    ):
        if for_program is SuggestFormat.LUCENE:
            file.writelines(f"{ngram}\t{weight}\n" for ngram, weight in rows)
        else:
            file.writelines(
                json.dumps({"suggest": {"input": [ngram], "weight": weight}}, ensure_ascii=False)
                + "\n"
                for ngram, weight in rows
            )
    return Written(len(table), int(unwritable.sum()))


# --- Hunspell ---


def hunspell_contents(locale: str) -> tuple[str, str]:
    """Return the names of the two files of a dictionary.

    >>> hunspell_contents("en-US")
    ('en_US.dic', 'en_US.aff')
    """
    name = check_locale(locale).replace("-", "_")
    return f"{name}.dic", f"{name}.aff"


def write_hunspell(
    release: Release,
    path: str | Path,
    *,
    locale: str = "en",
    casing: Mapping[str, str] | None = None,
    min_count: int | None = None,
    block: Blocklist = NO_BLOCKLIST,
    force: bool = False,
) -> Written:
    """Write a folder with the two files of a Hunspell dictionary.

    Args:
        release: A release that has words.
        path: The folder.
        locale: The language, which names the files.
        casing: How words are written that are not in lower case (`CaseCounter.casing`).
        min_count: Leaves out words whose count, less two deviations, is below it.
        block: Words that are left out.
        force: Whether an existing dictionary is replaced.

    Raises:
        UsageError: If the release has no words.
    """
    contents = hunspell_contents(locale)
    table = _table_of_words(release, min_count, block)
    table = table.filter(pa.array(table["order"].to_numpy() == 1))
    words = table["ngram"]
    # Numbers are right to Hunspell anyway, and emoji are no words to it.
    writable = (
        _matches(words, r"\pL")
        & ~_matches(words, r"[\\\pZ\pC]|[\x{10000}-\x{10FFFF}]")
        & (pc.utf8_length(words).to_numpy() <= HUNSPELL_MAX_LETTERS)
        & (pc.binary_length(words).to_numpy() < 250)
        # Hunspell would read it as a flag, or as the end of a sentence.
        & ~_matches(words, r"^/|\.$")
    )
    unwritable = int((~writable).sum())
    table = _most_probable_first(table.filter(pa.array(writable)))
    _require_rows(table)
    spellings = list(_spell(table["ngram"].to_pylist(), casing).values())
    entries = [spelling.replace("/", "\\/") for spelling in spellings]
    with write_folder_atomically(path, contents=contents, force=force) as folder:
        dic, aff = (folder / name for name in contents)
        dic.write_bytes("".join(f"{line}\n" for line in [len(entries), *entries]).encode())
        aff.write_bytes(_affixes(release, spellings, table["count"].to_numpy()).encode())
    return Written(len(entries), unwritable)


def _affixes(release: Release, words: Sequence[str], counts: Floats) -> str:
    """Return the .aff file: the letters to try in suggestions, the most frequent first."""
    letters: dict[str, float] = {}
    for word, count in zip(words, counts.tolist(), strict=True):
        for letter in word:
            letters[letter] = letters.get(letter, 0.0) + count
    ranked = sorted(letters, key=lambda letter: (-letters[letter], letter))
    tried = "".join(letter for letter in ranked if letter.isalpha())
    others = "".join(letter for letter in ranked if not letter.isalnum())
    claim = f"# Made from a Bayesgram release: {release.card.claim}\n"
    return f"{claim}SET UTF-8\nTRY {tried}\n" + (f"WORDCHARS {others}\n" if others else "")


# --- Hub ---


def _config_name(order: int) -> str:
    return {1: "unigrams", 2: "bigrams", 3: "trigrams"}.get(order, f"{order}-grams")


HUB_CONTENTS = (
    README,
    CARD_FILE,
    *(f"{_config_name(order)}.parquet" for order in range(1, MAX_ORDER + 1)),
)


def write_hub(
    release: Release,
    path: str | Path,
    *,
    locale: str = "en",
    min_count: int | None = None,
    block: Blocklist = NO_BLOCKLIST,
    force: bool = False,
) -> Written:
    """Write a dataset folder that `datasets.load_dataset` opens: a configuration for each order.

    Args:
        release: The release.
        path: The folder.
        locale: The language of the text.
        min_count: Leaves out n-grams whose count, less two deviations, is below it.
        block: Words whose n-grams are left out.
        force: Whether an existing dataset folder is replaced.
    """
    check_locale(locale)
    table = _select(release, min_count, block, boundaries=True)
    _require_rows(table)
    orders = table["order"].to_numpy()
    present = np.unique(orders).tolist()
    card = {"format": FORMAT, **release.card.to_json()}
    with write_folder_atomically(path, contents=HUB_CONTENTS, force=force) as folder:
        for order in present:
            rows = table.filter(pa.array(orders == order)).drop_columns(["order"])
            pq.write_table(rows, folder / f"{_config_name(order)}.parquet", compression="zstd")
        text = json.dumps(card, indent=2, ensure_ascii=False)
        (folder / CARD_FILE).write_bytes(f"{text}\n".encode())
        readme = _dataset_card(release, table, present, locale, min_count)
        (folder / README).write_bytes(readme.encode())
    return Written(len(table))


def _dataset_card(
    release: Release, table: pa.Table, orders: Sequence[int], locale: str, min_count: int | None
) -> str:
    """Return README.md: a YAML header for the hub, and what the release's card says."""
    card = release.card
    configs = "".join(
        f"- config_name: {_config_name(order)}\n  data_files: {_config_name(order)}.parquet\n"
        for order in orders
    )
    facts = "".join(f"- **{name}**: {line}\n" for name, line in card.summary_lines)
    conditions = "".join(f"- {sentence}\n" for sentence in card.assumptions)
    if not conditions:
        conditions = "No guarantee is claimed, so there are none.\n"
    is_total = "expected_counts" in card.details
    count_text = (
        "how often people wrote it: the probability times the noisy total of its order"
        if is_total
        else "the probability times a million; no total is known"
    )
    columns = {
        "ngram": "the tokens, joined by spaces",
        "probability": "its share among the n-grams of its order",
        "count": count_text,
        "standard_deviation": "of the probability",
        "origin": "whether it is from public text or was discovered",
    }
    described = "".join(
        f"- `{name}`: {text}\n" for name, text in columns.items() if name in table.column_names
    )
    left_out = (
        ""
        if min_count is None
        else f"N-grams whose count, less two standard deviations, is below {min_count} were left"
        " out; the probabilities are those of the whole release.\n\n"
    )
    return (
        f"---\nlanguage:\n- {re.split('[_-]', locale)[0]}\nlicense: unknown\n"
        f"size_categories:\n- {_size_category(len(table))}\n"
        f"tags:\n- differential-privacy\n- n-grams\nconfigs:\n{configs}---\n\n"
        f"# N-grams released with {card.claim}\n\n"
        f"{len(table):,} n-grams. The label is **{card.label}**: {card.promise_sentence}\n\n"
        f"## What the release says of itself\n\n{facts}\n"
        f"## Conditions\n\n{conditions}\n"
        f"## Columns\n\n{described}\n{left_out}"
        f"## How it was made\n\nWith {card.software}; exported by bayesgram {VERSION}."
        f" `{CARD_FILE}` is the card of the release, for programs. The export is post-processing"
        " and spent no privacy.\n\n"
        "## Limits\n\nCounts are estimates with noise. The license is for the publisher to"
        " state.\n\n"
        "## Citation\n\nRamadan, Withers, Orr (2021), and the software, Bayesgram.\n"
    )


def _size_category(rows: int) -> str:
    """Return the hub's name for a number of rows.

    >>> _size_category(999), _size_category(1000), _size_category(10**6)
    ('n<1K', '1K<n<10K', '1M<n<10M')
    """
    names = ["n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M"]
    limits = [10**3, 10**4, 10**5, 10**6, 10**7]
    return names[sum(rows >= limit for limit in limits)]


# --- Rows ---


def _select(
    release: Release,
    min_count: int | None,
    block: Blocklist,
    *,
    boundaries: bool = False,
) -> pa.Table:
    """Return the rows to write, with a column `order`.

    Args:
        release: The release.
        min_count: Leaves out n-grams whose count, less two deviations, is below it.
        block: Words whose n-grams are left out.
        boundaries: Whether n-grams with <s> and </s> are kept.
    """
    table = release_table(release, block, min_count)
    # A filtered table has lost the place of its rows, so the orders are found by n-gram.
    rows = pc.index_in(table["ngram"], value_set=release.ngrams).to_numpy()
    table = table.append_column("order", pa.array(release.orders[rows]))
    if boundaries or not release.tokenizer.boundaries:
        return table
    ngrams = table["ngram"]
    is_boundary = pc.or_(
        pc.or_(pc.equal(ngrams, START), pc.starts_with(ngrams, f"{START} ")),
        pc.or_(pc.equal(ngrams, END), pc.ends_with(ngrams, f" {END}")),
    )
    return table.filter(pc.invert(is_boundary))


def _table_of_words(release: Release, min_count: int | None, block: Blocklist) -> pa.Table:
    """Return the rows to write of a release that must have words."""
    if release.tokenizer.is_rows:
        raise UsageError(
            "the release has whole rows, and this format needs words; export rows as suggest, hub,"
            " tsv, jsonl, parquet or model."
        )
    if not (release.orders == 1).any():
        raise UsageError(
            f"the release has {release.card.size_text}, and this format needs words; release a"
            " vocabulary of orders 1 and 2 (`bayesgram vocab --orders 1,2`)."
        )
    return _select(release, min_count, block)


def _most_probable_first(table: pa.Table) -> pa.Table:
    order = np.argsort(-table["probability"].to_numpy(), kind="stable")
    return table.take(pa.array(order))


def _spell(words: Sequence[str], casing: Mapping[str, str] | None) -> dict[str, str]:
    """Return how each word is written; a spelling that is another word already is not used."""
    spellings = {word: (casing or {}).get(word, word) for word in words}
    return {
        word: word if spelling in spellings else spelling for word, spelling in spellings.items()
    }


def _matches(texts: pa.ChunkedArray, pattern: str, *, allow_joiners: bool = False) -> Bools:
    """Return which texts have a match; joiners hold emoji and letters of some scripts together."""
    if allow_joiners:
        texts = pc.replace_substring_regex(texts, r"[\x{200c}\x{200d}]", "")
    matches: Bools = pc.match_substring_regex(texts, pattern).to_numpy()
    return matches


def _require_rows(table: pa.Table) -> None:
    if not len(table):
        raise BayesgramError(
            "no n-gram is left to write that this format can hold; choose another format."
        )
