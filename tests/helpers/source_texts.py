"""Made-up public sources, and what is to be chosen of them, by definition: slow and literal."""

from collections import Counter
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

words = st.sampled_from(["a", "b", "ab", "é", "b'a"])
texts = st.lists(st.lists(words, min_size=1, max_size=9), min_size=1, max_size=6)
several_texts = st.lists(texts, min_size=2, max_size=5)


def make_table(sentences):
    return pa.table({"text": [" ".join(sentence) for sentence in sentences]})


def count_ngrams(sentences, order, *, boundaries):
    marked = [["<s>", *sentence, "</s>"] for sentence in sentences] if boundaries else sentences
    found = Counter(
        tuple(words[at : at + order]) for words in marked for at in range(len(words) - order + 1)
    )
    del found["<s>",]
    return found


def mean_frequency(ngram, sources):
    there = [source for source in sources if source.total()]
    return sum((Fraction(source[ngram], source.total()) for source in there), Fraction(0)) / len(
        there
    )


def select_ngrams(sources, size):
    """The definition: all n-grams, by their mean relative frequency, then in byte order token by
    token.
    """
    everything = set().union(*sources)
    return sorted(
        everything,
        key=lambda ngram: (-mean_frequency(ngram, sources), [token.encode() for token in ngram]),
    )[:size]


def mix_counts_exactly(counts):
    """`count` of the n-grams of one order, from the counts of each source."""
    sums = [sum(own) for own in counts]
    there = [k for k, total in enumerate(sums) if total]
    return [
        sum(sums) * sum(Fraction(counts[k][row], sums[k]) for k in there) / max(len(there), 1)
        for row in range(len(counts[0]))
    ]


def write_parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path
