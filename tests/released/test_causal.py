"""Words put together from the pieces of a causal model: against a slow, literal walk, with a tiny random GPT-2."""

import sys

import numpy as np
import pytest

import bayesgram as bg
from bayesgram.released.causal import INSIDE, SENTENCE_ENDS, CausalScorer

WORDS = ["fish", "fishing", "red", "reddish", "don't", "a", "blue", "</s>"]


def test_without_the_extra_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(bg.UsageError, match=r"not installed: pip install 'bayesgram\[transformers\]'$"):
        CausalScorer(None, None, WORDS)


@pytest.fixture(scope="module")
def made():
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    cut = tokenizers.Tokenizer(tokenizers.models.BPE())
    cut.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    cut.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
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
    return torch, model, tokenizer


def literal(made, words, context):
    """Piece by piece, a context and a word at a time, without a trie and without batches."""
    torch, model, tokenizer = made

    def after(pieces):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([pieces])).logits[0, -1]
        return torch.softmax(logits.double(), dim=-1).numpy()

    texts = [tokenizer.decode([number]) for number in range(len(tokenizer))]
    cut = {word: tokenizer.encode(" " + word, add_special_tokens=False) for word in words}
    firsts = {pieces[0] for pieces in cut.values()}
    begins = {n for n, text in enumerate(texts) if (text[:1] == " " and text[1:2].isalnum()) or n in firsts}
    ends = {0} | {n for n, text in enumerate(texts) if n and text.strip(" ") and text.lstrip(" ")[0] in SENTENCE_ENDS}
    ends -= firsts
    on = {n for n, text in enumerate(texts) if n and (text[0].isalnum() or text[0] in INSIDE)}
    start = [0, *tokenizer.encode("".join(f" {word}" for word in context), add_special_tokens=False)]
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
    _, model, tokenizer = made
    scorer = CausalScorer(model, tokenizer, WORDS, least=0.0, batch=batch)
    assert scorer.words == [*WORDS[:-1], "</s>", "<unk>"]
    contexts = [[], ["red"], ["a", "blue", "fish"], ["unheard", "don't"]]
    logs = scorer.log_probabilities(contexts)
    assert np.exp(logs).sum(axis=1) == pytest.approx(np.ones(4), abs=1e-9)
    for context, row in zip(contexts, logs, strict=True):
        expected = literal(made, WORDS[:-1], context)
        assert np.exp(row).tolist() == pytest.approx([expected[word] for word in scorer.words], rel=1e-4, abs=1e-9)


def test_prefixes_that_are_not_looked_into_keep_their_sum(made):
    _, model, tokenizer = made
    exact = np.exp(CausalScorer(model, tokenizer, WORDS, least=0.0).log_probabilities([["red"]]))
    rough = np.exp(CausalScorer(model, tokenizer, WORDS, least=0.9).log_probabilities([["red"]]))
    assert rough.sum() == pytest.approx(1)
    assert rough[0, -2] == pytest.approx(exact[0, -2])
    assert rough[0, :-2].sum() >= exact[0, :-2].sum()


def test_what_can_not_be_asked(made):
    _, model, tokenizer = made
    with pytest.raises(bg.UsageError, match=r"^least=1\.5: "):
        CausalScorer(model, tokenizer, WORDS, least=1.5)
    with pytest.raises(bg.UsageError, match=r"^vocabulary: no words in it"):
        CausalScorer(model, tokenizer, ["</s>"])
    with pytest.raises(bg.UsageError, match="a scorer has each once"):
        CausalScorer(model, tokenizer, ["red", "red"])
