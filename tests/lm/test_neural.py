"""Words put together from pieces: against a slow, literal walk, with a table of numbers and with a tiny random GPT-2."""

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bayesgram as bg
from bayesgram.lm import neural
from bayesgram.lm.neural import SENTENCE_ENDS, WORD_CHARACTERS, CausalScorer

WORDS = ["fish", "fishing", "red", "reddish", "don't", "a", "blue", "</s>"]


def test_without_the_extra_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        bg.UsageError, match=r"not installed: pip install 'bayesgram\[transformers\]'$"
    ):
        CausalScorer(None, None, WORDS)


def byte_level(tokenizers):
    """As GPT-2 cuts: the space before a word is in its first piece."""
    cut = tokenizers.Tokenizer(tokenizers.models.BPE())
    cut.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    cut.decoder = tokenizers.decoders.ByteLevel()
    return cut, tokenizers.pre_tokenizers.ByteLevel.alphabet()


def metaspace(tokenizers):
    """As Llama cuts: a text gets a space before its first word too."""
    cut = tokenizers.Tokenizer(tokenizers.models.BPE())
    cut.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always")
    cut.decoder = tokenizers.decoders.Metaspace(prepend_scheme="always")
    return cut, list("abcdefghijklmnopqrstuvwxyz',.!?")


class Stub:
    """What a scorer asks of a tokenizer of `transformers`, by the library `tokenizers` alone."""

    bos_token_id = eos_token_id = 0
    all_special_ids = (0,)

    def __init__(self, cut):
        self.cut = cut

    def __len__(self):
        return self.cut.get_vocab_size()

    def encode(self, text, *, add_special_tokens):
        return self.cut.encode(text, add_special_tokens=add_special_tokens).ids

    def convert_ids_to_tokens(self, ids):
        return [self.cut.id_to_token(number) for number in ids]

    def convert_tokens_to_string(self, pieces):
        return self.cut.decoder.decode(pieces)


class Random(CausalScorer):
    """A scorer whose network is a table of random numbers: without torch."""

    def _read_context(self, context):
        return random_row(self.tokenizer, context), None

    def _read_prefixes(self, context, _cache, nodes):
        for node in nodes:
            likely = random_row(self.tokenizer, [*context, *node.pieces])
            yield likely @ self._roles.columns[:, 0], likely[node.child_arrays.pieces]


def random_row(tokenizer, sequence):
    return np.random.default_rng(sequence).dirichlet(np.full(len(tokenizer), 0.1))


@dataclass(frozen=True)
class Made:
    kind: type[CausalScorer]
    model: Any
    tokenizer: Any
    space: str  # that is written before a text
    texts: list[str]  # of the pieces

    def scorer(self, words, **settings):
        return self.kind(self.model, self.tokenizer, words, **settings)

    def after(self, pieces):
        if self.kind is Random:
            return random_row(self.tokenizer, pieces)
        import torch

        with torch.no_grad():
            logits = self.model(input_ids=torch.tensor([pieces])).logits[0, -1]
        return torch.softmax(logits.double(), dim=-1).numpy()


def trained(tokenizers, cutting):
    cut, alphabet = cutting(tokenizers)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    cut.train_from_iterator([" red fish, reddish fishing. a blue fish! don't"] * 5, trainer)
    return cut


def random_gpt2(cut):
    """A tiny network, and the tokenizer as `transformers` has it."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=cut, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=64,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    for values in model.parameters():
        values.data.mul_(6)  # far from uniform
    return model, tokenizer


@pytest.fixture(params=[Random, CausalScorer], ids=["table", "gpt2"])
def kind(request, monkeypatch):
    if request.param is Random:
        monkeypatch.setattr(neural, "_import_torch", lambda: None)
    return request.param


@pytest.fixture(params=[byte_level, metaspace])
def made(request, kind):
    cut = trained(pytest.importorskip("tokenizers"), request.param)
    pieces = range(cut.get_vocab_size())
    if kind is Random:
        model, tokenizer = (
            SimpleNamespace(config=SimpleNamespace(vocab_size=len(pieces))),
            Stub(cut),
        )
    else:
        model, tokenizer = random_gpt2(cut)
    if request.param is byte_level:
        return Made(
            kind,
            model,
            tokenizer,
            " ",
            [cut.decode([n], skip_special_tokens=False) for n in pieces],
        )
    return Made(kind, model, tokenizer, "", [cut.id_to_token(n).replace("▁", " ") for n in pieces])


def literal(made, words, context, most=None):
    """Piece by piece, a context and a word at a time, without a trie and without batches."""

    def pieces_of(text):
        return made.tokenizer.encode(made.space + text, add_special_tokens=False)

    texts = made.texts
    cut = {word: pieces_of(word) for word in words}
    firsts = {pieces[0] for pieces in cut.values()}
    begins = {
        n
        for n, text in enumerate(texts)
        if (text[:1] == " " and text[1:2].isalnum()) or n in firsts
    }
    ends = {0} | {
        n
        for n, text in enumerate(texts)
        if n and text.strip(" ") and text.lstrip(" ")[0] in SENTENCE_ENDS
    }
    ends -= firsts
    on = {
        n for n, text in enumerate(texts) if n and (text[0].isalnum() or text[0] in WORD_CHARACTERS)
    }
    start = [
        0,
        *(
            pieces_of(" ".join(context))[slice(None) if most is None else slice(-most, None)]
            if context
            else []
        ),
    ]
    first = made.after(start)
    counted = sum(first[n] for n in begins | ends)
    found = {}
    for word, pieces in cut.items():
        p = first[pieces[0]] / counted
        for at in range(1, len(pieces)):
            p *= made.after(start + pieces[:at])[pieces[at]]
        following = made.after(start + pieces)
        found[word] = p * sum(following[n] for n in range(len(texts)) if n not in on)
    found["</s>"] = sum(first[n] for n in ends) / counted
    found["<unk>"] = 1 - sum(found.values())
    return found


@pytest.mark.parametrize("batch", [3, 64])
def test_equals_the_literal_walk(made, batch):
    scorer = made.scorer(WORDS, least=0.0, batch=batch)
    assert scorer.words == [*WORDS[:-1], "</s>", "<unk>"]
    contexts = [[], ["red"], ["a", "blue", "fish"], ["unheard", "don't"]]
    logs = scorer.log_probabilities(contexts)
    assert np.exp(logs).sum(axis=1) == pytest.approx(np.ones(4), abs=1e-9)
    for context, row in zip(contexts, logs, strict=True):
        expected = literal(made, WORDS[:-1], context)
        assert np.exp(row).tolist() == pytest.approx(
            [expected[word] for word in scorer.words], rel=1e-4, abs=1e-9
        )


def test_of_a_context_longer_than_the_model_reads_the_end_is_read(made):
    places = made.model.config.max_position_embeddings = 64
    scorer = made.scorer(WORDS, least=0.0)
    context = ["a", "red", "fish", "reddish", "blue"] * 30
    most = places - 1 - max(len(scorer._encode(word)) for word in WORDS[:-1])
    expected = literal(made, WORDS[:-1], context, most)
    found = np.exp(scorer.log_probabilities([context, ["red"]]))
    assert found[0].tolist() == pytest.approx(
        [expected[word] for word in scorer.words], rel=1e-4, abs=1e-9
    )
    assert found[1] == pytest.approx(np.exp(scorer.log_probabilities([["red"]]))[0])


def test_a_word_longer_than_the_model_reads(made):
    made.model.config.max_position_embeddings = 1
    with pytest.raises(
        bg.UsageError, match=r"^model: it reads 1 pieces, and a word of the list has [1-9]\.$"
    ):
        made.scorer(WORDS).log_probabilities([[]])


def test_a_model_that_remembers_nothing_reads_the_context_again(made, monkeypatch):
    contexts = [[], ["a", "blue", "fish"]]
    remembered = made.scorer(WORDS, least=0.0).log_probabilities(contexts)
    read = made.kind._read_context
    monkeypatch.setattr(
        made.kind, "_read_context", lambda self, context: (read(self, context)[0], None)
    )
    again = made.scorer(WORDS, least=0.0, batch=3).log_probabilities(contexts)
    assert np.exp(again) == pytest.approx(np.exp(remembered), rel=1e-4, abs=1e-9)


def test_prefixes_that_are_not_looked_into_keep_their_sum(made):
    exact = np.exp(made.scorer(WORDS, least=0.0).log_probabilities([["red"]]))
    rough = np.exp(made.scorer(WORDS, least=0.9).log_probabilities([["red"]]))
    assert rough.sum() == pytest.approx(1)
    assert rough[0, -2] == pytest.approx(exact[0, -2])
    assert rough[0, :-2].sum() >= exact[0, :-2].sum()


def test_what_can_not_be_asked(made):
    with pytest.raises(bg.UsageError, match=r"^least=1\.5: "):
        made.scorer(WORDS, least=1.5)
    with pytest.raises(bg.UsageError, match=r"^vocabulary: no words in it"):
        made.scorer(["</s>"])
    with pytest.raises(bg.UsageError, match="a scorer has each once"):
        made.scorer(["red", "red"])


def test_words_that_pieces_can_not_tell(made):
    with pytest.raises(bg.BayesgramError, match="no pieces for any of the words"):
        made.scorer([""]).log_probabilities([[]])
    scorer = made.scorer(["red", "reddish", ""], least=0.0)
    likely = np.exp(scorer.log_probabilities([["a"]]))[0]
    assert likely.sum() == pytest.approx(1)
    assert likely[2] < 1e-300


def test_a_tokenizer_without_a_beginning(kind):
    nothing = SimpleNamespace(bos_token_id=None, eos_token_id=None)
    if kind is Random:
        with pytest.raises(
            bg.UsageError, match=r"^tokenizer: it has neither a bos_token nor an eos_token"
        ):
            Random(None, nothing, WORDS)
