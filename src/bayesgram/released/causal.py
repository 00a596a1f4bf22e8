"""A Hugging Face causal model as a scorer of words: words are put together from its own pieces. An extra.

In:  a model and its tokenizer (both of `transformers`), and a list of words.   Out: a `Scorer`, with <unk> and </s>.
p(w|h) is the product of the probabilities of the pieces of w after h, and of the probability that no piece that goes on
with the word follows. The pieces of all words are walked as one trie, many contexts and prefixes a batch. Of the first
piece only those count that begin a word or end a sentence: what stands between words (commas, quotes) is not asked for.
</s> is that a sentence ends; <unk> is all the rest, so each context adds up to one.
A prefix whose probability is below `least` is not looked into: its words share it alike. That saves most of the
work; least = 0 is exact. Does not train, and does not load models: whoever calls brings one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.released.scoring import Context, positions
from bayesgram.released.trie import UNKNOWN
from bayesgram.text.ngrams import END, START

LEAST = 1e-5
BATCH = 64  # sequences that the model reads at once
SMALLEST = 1e-12  # of <unk>, which stands for something
SENTENCE_ENDS = ".!?…\n\r。！？"
INSIDE = "'’_\ufffd"  # what goes on with a word, beside letters and digits; the last is a part of a character
SPACES = ("Ġ", "▁", " ")  # how GPT-2, SentencePiece and others write the space before a word


@dataclass(frozen=True, eq=False)
class _Node:
    """A prefix of words in pieces."""

    pieces: tuple[int, ...]
    word: int = -1  # the word that ends here
    children: "dict[int, _Node]" = field(default_factory=dict)

    @cached_property
    def words(self) -> list[int]:
        """All that end here or below."""
        below = [word for child in self.children.values() for word in child.words]
        return below if self.word < 0 else [self.word, *below]


@dataclass(frozen=True, eq=False)
class _Kinds:
    """What each piece does after a finished word: begins another, ends the sentence; or goes on with the word."""

    begins: Bools
    ends: Bools
    goes_on: Bools


@dataclass(frozen=True, eq=False)
class CausalScorer:
    """A causal model of `transformers`, asked for words; see the module.

    The tokenizer is one that writes a space before a word into its first piece, as those of GPT-2 and Llama do.
    """

    model: Any  # gives logits of the next piece
    tokenizer: Any
    vocabulary: Sequence[str]  # the words; <unk> and </s> are added
    least: float = LEAST
    batch: int = BATCH

    def __post_init__(self) -> None:
        _torch()
        if not 0 <= self.least < 1:
            raise UsageError(f"least={self.least}: below it words are not told apart; from 0 to less than 1.")
        if not any(word not in {START, END, UNKNOWN} for word in self.vocabulary):
            raise UsageError("vocabulary: no words in it; give those to predict.")
        if self.tokenizer.bos_token_id is None and self.tokenizer.eos_token_id is None:
            raise UsageError("tokenizer: it has neither a bos_token nor an eos_token, with which a sentence begins.")
        positions(self.words)

    @cached_property
    def words(self) -> list[str]:
        """Those that were given, then </s> and <unk>."""
        return [word for word in self.vocabulary if word not in {START, END, UNKNOWN}] + [END, UNKNOWN]

    def log_probabilities(self, contexts: Sequence[Context]) -> Floats:
        """The logarithms of p of every word after each context."""
        likely = np.zeros((len(contexts), len(self.words)))
        prefixes = [[self._start, *self._pieces(" ".join(context))] for context in contexts]
        level = [(row, self._trie, 1.0) for row in range(len(contexts))]
        while level:
            level = list(self._next_level(level, prefixes, likely))
        likely[:, -1] = np.maximum(1 - likely[:, :-1].sum(axis=1), SMALLEST)
        logs: Floats = np.log(np.maximum(likely / likely.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))
        return logs

    def _next_level(
        self, level: list[tuple[int, _Node, float]], prefixes: list[list[int]], likely: Floats
    ) -> Iterator[tuple[int, _Node, float]]:
        """Ask for what follows each prefix; words that end are noted, longer prefixes come back."""
        after = self._after([prefixes[row] + list(node.pieces) for row, node, _ in level])
        kinds = self._kinds
        for (row, node, reached), following in zip(level, after, strict=True):
            shares = following
            if not node.pieces:
                counted = following * (kinds.begins | kinds.ends)
                shares = counted / counted.sum()
                likely[row, -2] = (shares * kinds.ends).sum()
            elif node.word >= 0:
                likely[row, node.word] += reached * following[~kinds.goes_on].sum()
            for piece, child in node.children.items():
                expected = reached * float(shares[piece])
                if expected < self.least:
                    likely[row, child.words] += expected / len(child.words)
                else:
                    yield row, child, expected

    def _after(self, sequences: list[list[int]]) -> Iterator[Floats]:
        """P of every piece after each sequence."""
        torch = _torch()
        for first in range(0, len(sequences), self.batch):
            some = sequences[first : first + self.batch]
            longest = max(map(len, some))
            inputs = torch.tensor([each + [self._start] * (longest - len(each)) for each in some])
            mask = torch.tensor([[1] * len(each) + [0] * (longest - len(each)) for each in some])
            device = next(self.model.parameters()).device
            with torch.no_grad():
                logits = self.model(input_ids=inputs.to(device), attention_mask=mask.to(device)).logits
            last = logits[torch.arange(len(some)), torch.tensor([len(each) - 1 for each in some])]
            yield from torch.softmax(last.double(), dim=-1).cpu().numpy()

    def _pieces(self, text: str) -> list[int]:
        """The pieces of words as they stand within a text."""
        found: list[int] = self.tokenizer.encode(self._space + text, add_special_tokens=False) if text else []
        return found

    @cached_property
    def _space(self) -> str:
        """What stands before the first word; nothing where the tokenizer adds a space itself, as Llama's does."""
        first = self.tokenizer.convert_ids_to_tokens(self.tokenizer.encode("a", add_special_tokens=False))[0]
        return "" if first.startswith(SPACES) else " "

    @cached_property
    def _start(self) -> int:
        first, end = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        return int(end if first is None else first)

    @cached_property
    def _trie(self) -> _Node:
        root = _Node(())
        nodes: dict[tuple[int, ...], _Node] = {(): root}
        cut = [tuple(self._pieces(word)) for word in self.words[:-2]]
        alike: dict[tuple[int, ...], int] = {}
        for number, pieces in enumerate(cut):
            if pieces and alike.setdefault(pieces, number) == number:
                for end in range(1, len(pieces) + 1):
                    if pieces[:end] not in nodes:
                        word = number if end == len(pieces) else -1
                        nodes[pieces[:end]] = _Node(pieces[:end], word)
                        nodes[pieces[: end - 1]].children[pieces[end - 1]] = nodes[pieces[:end]]
                if nodes[pieces].word != number:
                    _take_place(nodes, pieces, number)
        if not root.children:
            raise BayesgramError("the tokenizer has no pieces for any of the words; is it the model's?")
        return root

    @cached_property
    def _kinds(self) -> _Kinds:
        """By the first letter of each piece: a space, a sentence's end, a letter, or something else."""
        size = int(self.model.config.vocab_size)
        special = {*self.tokenizer.all_special_ids}
        raw = self.tokenizer.convert_ids_to_tokens(list(range(min(size, len(self.tokenizer)))))
        texts = [self._readable(piece or "") for piece in raw] + [""] * (size - len(raw))
        begins = np.array([text[:1] == " " and text[1:2].isalnum() for text in texts])
        ends = np.array([text.lstrip(" ")[:1] in SENTENCE_ENDS and bool(text.strip(" ")) for text in texts])
        goes_on = np.array([text[:1].isalnum() or (text[:1] != "" and text[:1] in INSIDE) for text in texts])
        of_model: Integers = np.array(sorted(each for each in special if each < size), np.int64)
        begins[of_model], goes_on[of_model], ends[of_model] = False, False, False
        ends[self.tokenizer.eos_token_id if self.tokenizer.eos_token_id is not None else self._start] = True
        firsts = list(self._trie.children)
        begins[firsts] = True
        ends[firsts] = False
        return _Kinds(begins, ends, goes_on)

    def _readable(self, piece: str) -> str:
        """The text of a piece, with one space where a word begins."""
        text: str = self.tokenizer.convert_tokens_to_string([piece])
        return " " * piece.startswith(SPACES) + text.lstrip(" ")


def _take_place(nodes: dict[tuple[int, ...], _Node], pieces: tuple[int, ...], word: int) -> None:
    """A prefix that was there already is a word too."""
    old = nodes[pieces]
    nodes[pieces] = _Node(pieces, word, old.children)
    nodes[pieces[:-1]].children[pieces[-1]] = nodes[pieces]


def _torch() -> Any:  # noqa: ANN401 - a module, which may not be there
    try:
        import torch  # noqa: PLC0415
    except ModuleNotFoundError:
        raise UsageError(
            "CausalScorer needs torch and transformers, which are not installed: pip install 'bayesgram[transformers]'"
        ) from None
    return torch
