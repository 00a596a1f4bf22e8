"""A vocabulary that has grown by what was discovered: public n-grams first, then the new ones, order by order.

What public text would count of a new n-gram follows from its probability q there; but no less than of the rarest n-gram
that is listed, as many people write it, and a list of what people write would have had it.
"""

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Floats, Integers
from bayesgram.public.sources import Source
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.released.origins import DiscoveryClaim, Origins
from bayesgram.text.ngrams import ngram_orders


def extended(vocabulary: Vocabulary, ngrams: pa.LargeStringArray, logs: Floats, claim: DiscoveryClaim) -> Vocabulary:
    """The vocabulary with n-grams that it lacks, of orders that it has; `logs` are log q."""
    before, orders = vocabulary.origins, ngram_orders(ngrams)
    names, counts, discovered = [], [], []
    for place, part in vocabulary.parts:
        new = np.flatnonzero(orders == part.order)
        names += [part.ngrams, ngrams.take(pa.array(new))]
        counts += [part.by_source, np.stack([_expected(own, logs[new]) for own in part.by_source])]
        old = np.zeros(len(part), bool) if before is None else before.discovered[place]
        discovered += [old, np.ones(new.size, bool)]
    claims = (*(before.claims if before else ()), claim)
    whole, origins = np.hstack(counts), Origins(np.concatenate(discovered), claims)
    listed = pa.concat_arrays(names)
    if not vocabulary.sources:
        order, tokenizer, made_from = vocabulary.order, vocabulary.tokenizer, vocabulary.made_from
        return Vocabulary(listed, whole[0], order, tokenizer, origins=origins, made_from=made_from)
    sources = [Source(source.name, own) for source, own in zip(vocabulary.sources, whole, strict=True)]
    return Vocabulary.of_sources(listed, sources, vocabulary.order, vocabulary.tokenizer, origins, vocabulary.made_from)


def _expected(counts: Integers, logs: Floats) -> Integers:
    """What a source with these counts would have of n-grams with these probabilities."""
    rarest = int(counts[counts > 0].min(initial=1 << 40)) if counts.any() else 0
    expected: Integers = np.maximum(np.rint(counts.sum() * np.exp(logs)), rarest).astype(np.int64)
    return expected
