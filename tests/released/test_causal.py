"""Words put together from the pieces of a causal model: against a slow, literal walk, with a tiny random GPT-2."""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import bayesgram as bg
from bayesgram.released.causal import INSIDE, SENTENCE_ENDS, CausalScorer

WORDS = ["fish", "fishing", "red", "reddish", "don't", "a", "blue", "</s>"]


def test_without_the_extra_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(bg.UsageError, match=r"not installed: pip install 'bayesgram\[transformers\]'$"):
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


@dataclass(frozen=True)
class Made:
    torch: Any
    model: Any
    tokenizer: Any
    space: str  # that is written before a text
    texts: list[str]  # of the pieces


@pytest.fixture(scope="module", params=[byte_level, metaspace])
def made(request):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    cut, alphabet = request.param(tokenizers)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=330, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    cut.train_from_iterator([" red fish, reddish fishing. a blue fish! don't"] * 5, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=cut, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    for values in model.parameters():
        values.data.mul_(6)  # far from uniform
    pieces = range(len(tokenizer))
    if request.param is byte_level:
        return Made(torch, model, tokenizer, " ", [tokenizer.decode([piece]) for piece in pieces])
    return Made(torch, model, tokenizer, "", [tokenizer.convert_ids_to_tokens(n).replace("▁", " ") for n in pieces])


def literal(made, words, context):
    """Piece by piece, a context and a word at a time, without a trie and without batches."""

    def after(pieces):
        with made.torch.no_grad():
            logits = made.model(input_ids=made.torch.tensor([pieces])).logits[0, -1]
        return made.torch.softmax(logits.double(), dim=-1).numpy()

    def pieces_of(text):
        return made.tokenizer.encode(made.space + text, add_special_tokens=False)

    texts = made.texts
    cut = {word: pieces_of(word) for word in words}
    firsts = {pieces[0] for pieces in cut.values()}
    begins = {n for n, text in enumerate(texts) if (text[:1] == " " and text[1:2].isalnum()) or n in firsts}
    ends = {0} | {n for n, text in enumerate(texts) if n and text.strip(" ") and text.lstrip(" ")[0] in SENTENCE_ENDS}
    ends -= firsts
    on = {n for n, text in enumerate(texts) if n and (text[0].isalnum() or text[0] in INSIDE)}
    start = [0, *(pieces_of(" ".join(context)) if context else [])]
    first = after(start)
    counted = sum(first[n] for n in begins | ends)
    found = {}
    for word, pieces in cut.items():
        p = first[pieces[0]] / counted
        for at in range(1, len(pieces)):
            p *= after(start + pieces[:at])[pieces[at]]
        following = after(start + pieces)
        found[word] = p * sum(following[n] for n in range(len(texts)) if n not in on)
    found["</s>"] = sum(first[n] for n in ends) / counted
    found["<unk>"] = 1 - sum(found.values())
    return found


@pytest.mark.parametrize("batch", [3, 64])
def test_equals_the_literal_walk(made, batch):
    model, tokenizer = made.model, made.tokenizer
    scorer = CausalScorer(model, tokenizer, WORDS, least=0.0, batch=batch)
    assert scorer.words == [*WORDS[:-1], "</s>", "<unk>"]
    contexts = [[], ["red"], ["a", "blue", "fish"], ["unheard", "don't"]]
    logs = scorer.log_probabilities(contexts)
    assert np.exp(logs).sum(axis=1) == pytest.approx(np.ones(4), abs=1e-9)
    for context, row in zip(contexts, logs, strict=True):
        expected = literal(made, WORDS[:-1], context)
        assert np.exp(row).tolist() == pytest.approx([expected[word] for word in scorer.words], rel=1e-4, abs=1e-9)


def test_prefixes_that_are_not_looked_into_keep_their_sum(made):
    model, tokenizer = made.model, made.tokenizer
    exact = np.exp(CausalScorer(model, tokenizer, WORDS, least=0.0).log_probabilities([["red"]]))
    rough = np.exp(CausalScorer(model, tokenizer, WORDS, least=0.9).log_probabilities([["red"]]))
    assert rough.sum() == pytest.approx(1)
    assert rough[0, -2] == pytest.approx(exact[0, -2])
    assert rough[0, :-2].sum() >= exact[0, :-2].sum()


def test_what_can_not_be_asked(made):
    model, tokenizer = made.model, made.tokenizer
    with pytest.raises(bg.UsageError, match=r"^least=1\.5: "):
        CausalScorer(model, tokenizer, WORDS, least=1.5)
    with pytest.raises(bg.UsageError, match=r"^vocabulary: no words in it"):
        CausalScorer(model, tokenizer, ["</s>"])
    with pytest.raises(bg.UsageError, match="a scorer has each once"):
        CausalScorer(model, tokenizer, ["red", "red"])
