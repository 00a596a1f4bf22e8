"""A release as files for keyboards, search boxes, spell checkers and dataset hubs.

Four formats, each as the program that reads it publishes it:

* AOSP word lists (`.combined`), which dicttool makes keyboard dictionaries of. Each word has a
  number f: 255 is probability 1, and one less divides it by 1.15. A bigram has the f of its last
  word after its first one, and at least that of its last word alone: dicttool holds no lower one.
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
import unicodedata
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
# Of one word: what reads a dictionary refuses more (MAX_BIGRAMS_IN_A_PTNODE). The likeliest stay.
AOSP_MAX_BIGRAMS = 10_000
MAX_WEIGHT = 2**31 - 1  # of a completion document; Lucene's weights are larger
# Hunspell refuses words of 100 characters, and of 256 bytes. A test asks it about words up to here.
HUNSPELL_MAX_LETTERS = 90
README = "README.md"
CITATION = (
    "- Bayesgram, the software that made it.\n"
    "- Osman Ramadan, James Withers and Douglas Orr: N-grams Bayesian Differential Privacy, 2021,"
    " https://arxiv.org/abs/2101.12736."
)
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
    frequency_of = dict(zip(counts, frequencies, strict=True))
    followers = _followers(pairs, bigrams["count"].to_numpy(), counts, frequency_of)
    superfluous = sum(max(len(after) - AOSP_MAX_BIGRAMS, 0) for after in followers.values())

    bigram_count = 0
    with (
        write_file_atomically(path, force=force) as aside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.write(_aosp_header(release, locale, date, version))
        for word, frequency in frequency_of.items():
            file.write(f" word={spellings[word]},f={frequency}\n")
            for second, second_frequency in followers.get(word, [])[:AOSP_MAX_BIGRAMS]:
                file.write(f"  bigram={spellings[second]},f={second_frequency}\n")
                bigram_count += 1
    unwritable = len(unwritable_words) + unwritable_pairs + superfluous
    return Written(len(words) + bigram_count, unwritable)


def _followers(
    pairs: Sequence[tuple[str, ...]],
    pair_counts: Floats,
    counts: Mapping[str, float],
    word_frequencies: Mapping[str, int],
) -> dict[str, list[tuple[str, int]]]:
    """Return what follows each word, with its f, the likeliest first.

    A bigram whose words are not both in the list has no place in the format.

    Args:
        pairs: The bigrams, the most probable first.
        pair_counts: Their counts.
        counts: The count of each word.
        word_frequencies: The f of each word: no bigram that ends in it has a lower one.
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
        after = followers.setdefault(first, [])
        after.append((second, max(frequency, word_frequencies[second])))
    return {
        first: sorted(after, key=lambda follower: -follower[1])  # stable: equal ones stay in order
        for first, after in followers.items()
    }


def _aosp_frequencies(probabilities: Floats) -> list[int]:
    with np.errstate(divide="ignore"):
        steps = np.log(probabilities) / AOSP_LOG_STEP
    frequencies = np.clip(AOSP_MAX_FREQUENCY + steps, AOSP_MIN_FREQUENCY, AOSP_MAX_FREQUENCY)
    return [int(frequency) for frequency in np.rint(frequencies)]


def _aosp_header(release: Release, locale: str, date: int, version: int) -> str:
    """Return the first line. No value may have a comma, an equals sign or a colon."""
    claim = release.card.claim.replace(" = ", " ").replace(", ", "; ")
    if release.card.discoveries_sentence:
        claim += "; finding words in people's text cost more; see card.json"
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
    """Return the .aff file.

    TRY has the characters to try in suggestions, the most frequent first. WORDCHARS has those that
    are no letters and still do not end a word. ICONV reads the apostrophe of typesetters as that of
    typewriters, which is the one in releases.
    """
    weights: dict[str, float] = {}
    for word, count in zip(words, counts.tolist(), strict=True):
        for letter in word:
            weights[letter] = weights.get(letter, 0.0) + count
    ranked = sorted(weights, key=lambda letter: (-weights[letter], letter))
    tried = "".join(letter for letter in ranked if letter.isalpha() or letter in "'-")
    inner = "".join(letter for letter in ranked if _is_inside_words(letter))
    lines = [f"# Made from a Bayesgram release: {release.card.claim}", "SET UTF-8", f"TRY {tried}"]
    if "'" in weights:
        lines += ["ICONV 1", "ICONV ’ '"]
        inner += "’"
    if inner:
        lines.append(f"WORDCHARS {inner}")
    return "".join(f"{line}\n" for line in lines)


def _is_inside_words(letter: str) -> bool:
    """Return whether Hunspell must be told that a character does not end a word.

    It knows letters. The vowels of some scripts are marks; a comma or a slash, which white space
    as the tokenizer leaves in words, would keep `fish, and` from being two words.
    """
    is_mark = unicodedata.category(letter).startswith("M")
    return is_mark or letter.isdigit() or letter in "'-·\u200c\u200d"


# --- Hub ---


def _config_name(order: int, *, is_rows: bool = False) -> str:
    if is_rows:
        return ROWS_CONFIG
    return {1: "unigrams", 2: "bigrams", 3: "trigrams"}.get(order, f"{order}-grams")


ROWS_CONFIG = "rows"
HUB_CONTENTS = (
    README,
    CARD_FILE,
    f"{ROWS_CONFIG}.parquet",
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
    configs = {
        _config_name(order, is_rows=release.tokenizer.is_rows): order
        for order in np.unique(orders).tolist()
    }
    card = {"format": FORMAT, **release.card.to_json()}
    with write_folder_atomically(path, contents=HUB_CONTENTS, force=force) as folder:
        for config, order in configs.items():
            rows = table.filter(pa.array(orders == order)).drop_columns(["order"])
            pq.write_table(rows, folder / f"{config}.parquet", compression="zstd")
        text = json.dumps(card, indent=2, ensure_ascii=False)
        (folder / CARD_FILE).write_bytes(f"{text}\n".encode())
        readme = _dataset_card(release, table, list(configs), locale)
        (folder / README).write_bytes(readme.encode())
    return Written(len(table))


def _dataset_card(release: Release, table: pa.Table, configs: Sequence[str], locale: str) -> str:
    """Return README.md: a YAML header for the hub, and what the release's card says."""
    card = release.card
    is_rows = release.tokenizer.is_rows
    items = "rows" if is_rows else "n-grams"
    # In quotes, as YAML reads the language of Norway (no) as false.
    language = json.dumps(re.split("[_-]", locale)[0])
    listed_configs = "".join(
        f"- config_name: {config}\n  data_files: {config}.parquet\n" for config in configs
    )
    what = (
        "Each row is a whole text, such as a query or a short answer."
        if is_rows
        else "They say how often people write words and sequences of words."
    )
    discovered = (
        f"The heading has the ε and δ of the counts. Finding {items} in people's text had a cost of"
        f" its own: {card.discoveries_sentence}.\n\n"
        if card.discoveries_sentence
        else ""
    )
    facts = "".join(f"- **{name}**: {line}\n" for name, line in card.summary_lines)
    conditions = "".join(f"- {sentence}\n" for sentence in card.assumptions)
    if conditions:
        conditions = f"The guarantee holds if\n\n{conditions}"
    else:
        conditions = "No guarantee is claimed, so there are none.\n"
    has_totals = "expected_counts" in card.details
    among = "rows" if is_rows else "n-grams of its order"
    columns = {
        "ngram": "the row, normalised" if is_rows else "the tokens, joined by spaces",
        "probability": f"its share among all {among}",
        "count": (
            f"an estimate of how often people wrote it, of each person up to a limit (the clip"
            f" norm): the probability times the noisy total of the {among}"
            if has_totals
            else "the probability times a million; no total is known"
        ),
        "standard_deviation": "of the probability",
        "origin": "whether it is from public text or was discovered in people's text",
    }
    described = "".join(
        f"- `{name}`: {text}\n" for name, text in columns.items() if name in table.column_names
    )
    left_out = len(release) - len(table)
    if left_out:
        described += (
            f"\nThe publisher left out {left_out:,} of the {len(release):,} {items} of the"
            " release; the probabilities are those of the whole release.\n"
        )
    deviations = (
        " `standard_deviation` says how much." if "standard_deviation" in table.column_names else ""
    )
    return (
        f"---\nlanguage:\n- {language}\nlicense: unknown\n"
        f"size_categories:\n- {_size_category(len(table))}\n"
        f"tags:\n- differential-privacy\n- {items}\nconfigs:\n{listed_configs}---\n\n"
        f"# {items.capitalize()} released with {card.claim}\n\n"
        f"{len(table):,} {items}. {what}\n\n"
        f"The label is **{card.label}**: {card.promise_sentence}\n\n{discovered}"
        "```python\nfrom datasets import load_dataset\n\n"
        f'{configs[0]} = load_dataset("path/to/this/folder", "{configs[0]}", split="train")\n'
        "```\n\n"
        f"## What the release says of itself\n\n{facts}\n"
        f"## Conditions\n\n{conditions}\n"
        f"## Columns\n\n{described}\n"
        f"## How it was made\n\nWith {card.software}; exported by bayesgram {VERSION}."
        f" `{CARD_FILE}` is the card of the release, for programs. The export is post-processing"
        " and spent no privacy.\n\n"
        f"## Limits\n\nCounts are estimates with noise.{deviations} The publisher has not stated"
        " a license yet: `license` in the head of this file is for the publisher to fill in.\n\n"
        f"## Citation\n\n{CITATION}\n"
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
