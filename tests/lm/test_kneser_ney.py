"""Modified Kneser–Ney against a slow, literal reading of the paper, against KenLM's lmplz, and against itself."""

import math
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesgram.errors import BayesgramError
from bayesgram.lm import ngram_counts
from bayesgram.lm.arpa import read_arpa, write_arpa
from bayesgram.lm.kneser_ney import estimate_discounts, estimate_kneser_ney, pack_estimate
from bayesgram.lm.language_model import LanguageModel
from bayesgram.lm.packed import is_consistent
from bayesgram.lm.pruning import TextPruner, select_ngrams
from bayesgram.lm.trie import sum_contexts
from bayesgram.public.public_model import PublicModel, count_ngrams, model_words
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.synthetic.population import Population
from bayesgram.text import ngrams as ngrams_module
from bayesgram.text.tokenizer import Tokenizer
from helpers.hypothesis_profiles import examples

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
KNOWN = ["a", "b", "c", "é", "𝒱"]
CUT = Tokenizer("whitespace", boundaries=True)

word = st.sampled_from([*KNOWN, "zzz", "yyy", START, END, UNKNOWN, "<UNK>"])
sentence = st.lists(word, max_size=7)
texts = st.one_of(
    st.lists(sentence, min_size=1, max_size=25),
    st.builds(
        lambda words, times: [words] * times,
        st.lists(word, min_size=1, max_size=4),
        st.integers(1, 9),
    ),
    st.builds(lambda n: [["a"] * n], st.integers(1, 9)),  # one word
    st.builds(lambda n: [["zzz"] * n, [], ["yyy"]], st.integers(1, 9)),  # only unknown words
    st.builds(  # enough repeats for the counts of counts to give discounts
        lambda seed: [
            [KNOWN[min(n, 4)] for n in row]
            for row in np.random.default_rng(seed).geometric(0.5, (60, 6)) - 1
        ],
        st.integers(0, 1000),
    ),
).filter(any)


def words_of(listed):
    return model_words(
        SimpleNamespace(ngrams=pa.array(listed, pa.large_string()), tokenizer=Tokenizer())
    )


@pytest.fixture(scope="module", autouse=True)
def folder():
    """Where counts wait; each gets a folder there."""
    with tempfile.TemporaryDirectory() as name:
        tempfile.tempdir, before = name, tempfile.tempdir
        yield
        tempfile.tempdir = before


def counted(rows, order, *, listed=KNOWN, tokenizer=CUT, memory=1 << 30):
    """Sentences as the pipeline counts them: a row each."""
    batch = SimpleNamespace(
        text=pa.array([" ".join(row).encode() for row in rows], pa.large_binary())
    )
    scratch = Path(tempfile.mkdtemp())
    return count_ngrams(
        [batch], words_of(listed), order=order, tokenizer=tokenizer, scratch=scratch, memory=memory
    )


class ReferenceModel:
    """Chen and Goodman's formulas with dictionaries; `kept` are the n-grams of order 2 and more that a model keeps."""

    def __init__(self, rows, order, kept=None):
        sentences = [
            [START, *(w if w in KNOWN else UNKNOWN for w in row), END] for row in rows if row
        ]
        self.words = {*KNOWN, START, END, UNKNOWN}
        self.counts = {}
        for words in sentences:
            for n in range(1, order + 1):
                for at in range(len(words) - n + 1):
                    ngram = tuple(words[at : at + n])
                    self.counts[ngram] = self.counts.get(ngram, 0) + 1
        self.order = max(map(len, self.counts))
        self.kept = set(self.counts) if kept is None else kept
        full = self._adjusted(set(self.counts))
        self.discounts = {n: self._discounts(full, n) for n in range(1, self.order + 1)}
        self.a = self._adjusted(self.kept)
        self.after = {}
        for ngram in self.a:
            self.after.setdefault(ngram[:-1], []).append(ngram)
        self._known = {}

    def _adjusted(self, kept):
        a = {}
        for ngram in sorted(self.counts, key=len, reverse=True):
            if len(ngram) == self.order or (ngram[0] == START and len(ngram) > 1):
                a[ngram] = self.counts[ngram]
                continue
            before = [(x, *ngram) for x in self.words if (x, *ngram) in self.counts]
            a[ngram] = sum(1 if longer in kept else a[longer] for longer in before)
        a[(START,)] = 0
        return a

    def _discounts(self, a, n):
        number = [
            sum(len(ngram) == n and count == k for ngram, count in a.items()) for k in range(5)
        ]
        if not (number[1] and number[2] and number[3]):
            return [0, 0.5, 1, 1.5]
        y = number[1] / (number[1] + 2 * number[2])
        found = [0, *(k - (k + 1) * y * number[k + 1] / number[k] for k in (1, 2, 3))]
        return found if min(found[1:]) > 0 else [0, 0.5, 1, 1.5]

    def taken(self, ngram):
        return self.discounts[len(ngram)][min(self.a[ngram], 3)]

    def p(self, ngram):
        """P(w|h) by the model that is left: of what stays as the paper says, of others by back-off."""
        if ngram not in self._known:
            self._known[ngram] = self._p(ngram)
        return self._known[ngram]

    def _p(self, ngram):
        context = ngram[:-1]
        if not context:
            total = sum(self.a[each] for each in self.after[()])
            left = sum(map(self.taken, self.after[()]))
            own = self.a[ngram] - self.taken(ngram) if ngram in self.a else 0
            return 0.0 if ngram == (START,) else (own + left / (len(self.words) - 1)) / total
        if ngram in self.kept and ngram in self.a:
            return self.interpolated(ngram)
        return self.weight(context) * self.p(ngram[1:])

    def interpolated(self, ngram):
        total = sum(self.a[each] for each in self.after[ngram[:-1]])
        gamma = sum(map(self.taken, self.after[ngram[:-1]])) / total
        return (self.a[ngram] - self.taken(ngram)) / total + gamma * self.p(ngram[1:])

    def weight(self, context):
        """What makes a context add up to one, in the words of the definition."""
        stays = [ngram for ngram in self.after.get(context, []) if ngram in self.kept]
        if not self.after.get(context):
            return 1.0
        others = [w for w in self.words - {START} if (*context, w) not in stays]
        left = 1 - sum(map(self.interpolated, stays))
        below = sum(self.p((*context[1:], w)) for w in others)
        return left / below


def named(trie):
    """The n-grams of a trie with what it says of them."""
    words = [each.decode() for each in trie.words.to_list()]
    found = {}
    for order in range(1, trie.order + 1):
        nodes = trie.nodes(order)
        weights = (
            trie.log_backoff[nodes].tolist()
            if order < trie.order
            else [None] * (nodes.stop - nodes.start)
        )
        for row, p, weight in zip(
            trie.ngrams(order).tolist(), trie.log_probability[nodes].tolist(), weights, strict=True
        ):
            found[tuple(words[number] for number in row)] = p, weight
    return found


def agrees(trie, literal):
    """Every n-gram and every weight as the definition has them."""
    found = named(trie)
    for ngram, (p, weight) in found.items():
        if ngram != (START,):
            assert p == pytest.approx(math.log10(literal.p(ngram)), abs=2e-6)
        if (
            weight is not None
            and literal.after.get(ngram)
            and len(literal.after[ngram]) < len(literal.words) - 1
        ):
            assert weight == pytest.approx(math.log10(literal.weight(ngram)), abs=1e-5)
    assert is_consistent(trie.for_scoring)
    assert np.abs(sum_contexts(trie) - 1).max() < 1e-5
    return found


@given(texts, st.integers(2, 6))
@examples(120)
def test_the_literal_reference(rows, order):
    literal = ReferenceModel(rows, order)
    found = agrees(estimate_kneser_ney(counted(rows, order)), literal)
    assert set(found) == set(literal.counts) | {(word,) for word in literal.words}


@given(texts, st.integers(2, 5), st.integers(1, 30))
@examples(80)
def test_a_smaller_model_is_what_the_definition_leaves(rows, order, extra):
    text = counted(rows, order)
    keep = len(text.words) + extra
    small = TextPruner(text).build_model(keep)
    assert small.word.size - 1 == min(keep, text.size)
    kept = {ngram for ngram in named(small) if len(ngram) > 1}
    agrees(small, ReferenceModel(rows, order, kept))


@given(texts, st.integers(2, 6))
@examples(30)
def test_a_size_that_all_fit_in_changes_nothing(rows, order):
    text = counted(rows, order)
    whole, same = estimate_kneser_ney(text), TextPruner(text).build_model(text.size)
    assert named(whole) == named(same)


@given(texts, st.integers(2, 6))
@examples(20)
def test_tokenizers_with_and_without_boundaries_count_alike(rows, order):
    plain = SimpleNamespace(ngrams=pa.array(KNOWN, pa.large_string()))
    inputs = pa.table({"text": [" ".join(row) for row in rows]})
    with_marks, without = (
        PublicModel.from_public(
            Vocabulary(
                plain.ngrams, np.ones(5, np.int64), 1, Tokenizer("whitespace", boundaries=marks)
            ),
            inputs,
            order=order,
        )
        for marks in (True, False)
    )
    assert named(with_marks["public"].trie) == named(without["public"].trie)


def test_discounts_of_few_counts_are_the_usual_ones():
    usual = [0.0, 0.5, 1.0, 1.5]
    assert estimate_discounts([np.array([1, 1, 2, 4])]).tolist() == usual  # none of count 3
    assert estimate_discounts([np.array([0, 0])]).tolist() == usual
    assert (
        estimate_discounts([np.repeat([1, 2, 3, 4], [10, 1, 9, 1])]).tolist() == usual
    )  # D₂ would be below 0
    assert estimate_discounts(iter([np.repeat([1, 2, 3], [10, 3, 1])]))[3] == 3.0  # as lmplz has it


def test_more_ngrams_than_a_model_holds(monkeypatch):
    monkeypatch.setattr(ngram_counts, "MAX_NODES", 10)
    with pytest.raises(
        BayesgramError, match=r"11 n-grams: a model holds 10; give less text, or a smaller order\."
    ):
        counted([["a", "b"]], 2)


@pytest.fixture(scope="module")
def messages():
    batch = next(Population(users=300, seed=5).messages())
    return batch["text"].to_pylist()


def same(ours, theirs):
    """Whether two models are alike, bit for bit."""
    arrays = (
        (each.records, each.bases, each.words.data, each.words.ends) for each in (ours, theirs)
    )
    return ours.layout == theirs.layout and all(map(np.array_equal, *arrays))


@given(texts, st.integers(2, 6), st.integers(1, 5), st.integers(1, 30))
@examples(25)
def test_some_rows_at_a_time_give_the_same_model(rows, order, few, extra):
    whole = TextPruner(counted(rows, order))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngram_counts, "MIN_ROWS", few)
        little = TextPruner(counted(rows, order, memory=1))
        keep = len(little.counts.words) + extra
        small, smaller = little.build_model(None), little.build_model(keep)
    assert same(small, whole.build_model(None))
    assert same(smaller, whole.build_model(keep))


@pytest.mark.parametrize("order", [2, 3, 5])
def test_little_memory_gives_the_same_model(monkeypatch, messages, order):
    rows = [words for text in messages for words in Tokenizer().sentences(text)]
    listed = sorted({word for words in rows for word in words})[::2]  # every other word is unknown
    text = {"listed": listed, "tokenizer": Tokenizer(boundaries=True)}
    whole = TextPruner(counted(rows, order, **text))
    spilled = []
    keep = ngrams_module.spill
    monkeypatch.setattr(ngrams_module, "SMALLEST", 1 << 12)
    monkeypatch.setattr(ngrams_module, "spill", lambda *them: (spilled.append(1), keep(*them)))
    monkeypatch.setattr(ngram_counts, "MIN_ROWS", 700)
    little = TextPruner(counted(rows, order, **text, memory=1))
    assert spilled
    for size in (None, len(little.counts.words) + 700):
        assert same(little.build_model(size), whole.build_model(size))


def test_what_goes_is_what_the_pruning_of_any_model_lets_go(messages):
    """The same n-grams as by `pruning`, from a model whose lower orders count all_probabilities."""
    rows = [words for text in messages for words in Tokenizer().sentences(text)]
    text = counted(rows, 4, listed=sorted({word for words in rows for word in words})[::3])
    keeping = TextPruner(text)
    judging = pack_estimate(keeping._estimate_judging_model(), None)
    for size in (len(text.words) + 1, len(text.words) + 900, text.size - 1):
        kept = [column.read(0, column.size) for column in keeping.select(size)]
        right = select_ngrams(judging, size)
        assert sum(map(np.count_nonzero, kept)) == size
        assert all(map(np.array_equal, kept, right))
        assert not any(map(np.any, kept[len(right) :]))


def test_nothing_is_left_on_disk_but_the_counts(messages):
    keeping = TextPruner(counted([text.split() for text in messages[:200]], 3, memory=1))
    keeping.build_model(12)
    files = len(list(keeping.counts.folder.iterdir()))
    assert files
    for size in (10, 20, None):
        keeping.build_model(size)
    assert len(list(keeping.counts.folder.iterdir())) == files


def test_kenlm_reads_what_is_written_and_scores_the_same(tmp_path, messages):
    kenlm = pytest.importorskip("kenlm", reason="KenLM is not installed")
    rows = [words for text in messages for words in Tokenizer().sentences(text)]
    listed = sorted({word for words in rows for word in words})[::2]
    text = counted(rows[100:], 3, listed=listed, tokenizer=Tokenizer(boundaries=True))
    for keep in (None, len(text.words) + 500):
        model = LanguageModel(TextPruner(text).build_model(keep), Tokenizer())
        path = tmp_path / f"{keep}.arpa"
        write_arpa(model, path)
        judged = kenlm.Model(str(path))
        for words in rows[:100]:
            theirs = [score for score, _, _ in judged.full_scores(" ".join(words))]
            assert [each.log10 for each in model.score_words(words)] == pytest.approx(
                theirs, abs=1e-5
            )


LMPLZ = shutil.which("lmplz")


@pytest.mark.skipif(
    LMPLZ is None, reason="no lmplz on PATH: KenLM's estimator is built from source, by cmake"
)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_lmplz_estimates_the_same_model(tmp_path, messages, order):
    rows = [words for text in messages for words in Tokenizer().sentences(text)]
    (tmp_path / "text").write_text("".join(" ".join(words) + "\n" for words in rows))
    command = [LMPLZ, "-o", str(order), "-S", "100M", "-T", tmp_path, "--discount_fallback"]
    command += ["--text", tmp_path / "text", "--arpa", tmp_path / "theirs.arpa"]
    subprocess.run(command, check=True, capture_output=True)
    listed = sorted({word for words in rows for word in words})
    ours = named(
        estimate_kneser_ney(
            counted(rows, order, listed=listed, tokenizer=Tokenizer(boundaries=True))
        )
    )
    theirs = named(read_arpa(tmp_path / "theirs.arpa").trie)
    assert set(ours) == set(theirs)
    for ngram, (p, weight) in theirs.items():
        assert ngram == (START,) or ours[ngram][0] == pytest.approx(p, abs=1e-5)
        assert weight is None or ours[ngram][1] == pytest.approx(weight, abs=1e-5)
