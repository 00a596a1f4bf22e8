"""Vocabularies of several public sources, against slow and literal references."""

from collections import Counter
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError
from bayesgram.public import choosing
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokens import Tokenizer

words = st.sampled_from(["a", "b", "ab", "é", "b'a"])
texts = st.lists(st.lists(words, min_size=1, max_size=9), min_size=1, max_size=6)
several = st.lists(texts, min_size=2, max_size=5)


def table(sentences):
    return pa.table({"text": [" ".join(sentence) for sentence in sentences]})


def windows(sentences, order, *, boundaries):
    marked = [["<s>", *sentence, "</s>"] for sentence in sentences] if boundaries else sentences
    found = Counter(tuple(words[at : at + order]) for words in marked for at in range(len(words) - order + 1))
    del found["<s>",]
    return found


def mean_frequency(ngram, sources):
    there = [source for source in sources if source.total()]
    return sum((Fraction(source[ngram], source.total()) for source in there), Fraction(0)) / len(there)


def chosen(sources, size):
    """The definition: all n-grams, by their mean relative frequency, then in byte order token by token."""
    everything = set().union(*sources)
    return sorted(everything, key=lambda ngram: (-mean_frequency(ngram, sources), [token.encode() for token in ngram]))[
        :size
    ]


def mixed(counts):
    """`count` of the n-grams of one order, from the counts of each source."""
    sums = [sum(own) for own in counts]
    there = [k for k, total in enumerate(sums) if total]
    return [
        sum(sums) * sum(Fraction(counts[k][row], sums[k]) for k in there) / max(len(there), 1)
        for row in range(len(counts[0]))
    ]


@settings(deadline=None)
@given(several, st.integers(1, 3), st.integers(1, 12), st.booleans(), st.sampled_from([0, 1000]), st.integers(0, 4))
def test_the_n_grams_with_the_highest_mean_frequency(sources, order, size, boundaries, memory, ties):
    """Exactly, however few candidates are looked up at a time."""
    counted = [windows(sentences, order, boundaries=boundaries) for sentences in sources]
    wanted = chosen(counted, size)
    given_ = {f"s{number}": table(sentences) for number, sentences in enumerate(sources)}
    lacking = [k for k, own in enumerate(counted) if not any(own[ngram] for ngram in wanted)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "MOST_TIES", ties)
        patch.setattr(choosing, "FEWEST_ROWS", 1 if memory == 0 else 1000)
        if lacking:
            with pytest.raises(BayesgramError):
                Vocabulary.from_public(given_, order=order, size=size, tokenizer=Tokenizer(boundaries=boundaries))
            return
        made = Vocabulary.from_public(
            given_, order=order, size=size, tokenizer=Tokenizer(boundaries=boundaries), memory=memory
        )
    assert made.ngrams.to_pylist() == [" ".join(ngram) for ngram in wanted]
    assert made.by_source.tolist() == [[own[ngram] for ngram in wanted] for own in counted]
    exact = mixed(made.by_source.tolist())
    assert all(
        abs(count - value) <= Fraction(501, 1000) for count, value in zip(made.counts.tolist(), exact, strict=True)
    )


def test_one_source_is_chosen_from_as_ever():
    text = table([["a", "b", "a"], ["b", "a"]])
    plain, named = (Vocabulary.from_public(given_, order=(1, 2), size=3) for given_ in (text, {"x": text}))
    assert plain.sources == ()
    assert plain.source_names == ["public"]
    assert plain.by_source.tolist() == [plain.counts.tolist()]
    assert named.source_names == ["x"]
    assert named.counts.tolist() == named.sources[0].counts.tolist() == plain.counts.tolist()
    assert named.ngrams.equals(plain.ngrams)
    assert named.fingerprint == plain.fingerprint
    assert named.prior_fingerprint != plain.prior_fingerprint


def test_round_trip(tmp_path):
    made = Vocabulary.from_public(
        {"wiki": table([["a", "b", "c"]] * 9), "talk-1.x_": table([["b", "c"], ["c", "d"]])}, order=(1, 2), size=9
    )
    made.save(tmp_path / "v.parquet")
    read = Vocabulary.load(tmp_path / "v.parquet")
    assert read.source_names == ["wiki", "talk-1.x_"]
    assert read.by_source.tolist() == made.by_source.tolist()
    assert read.counts.tolist() == made.counts.tolist()
    assert (read.fingerprint, read.prior_fingerprint) == (made.fingerprint, made.prior_fingerprint)
    for (place, part), (_, loaded) in zip(made.parts, read.parts, strict=True):
        assert part.counts.tolist() == made.counts[place].tolist() == loaded.counts.tolist()
        assert part.by_source.tolist() == made.by_source[:, place].tolist()
