"""A Hugging Face causal model as a scorer of words: words are put together from its own pieces. An extra.

In:  a model and its tokenizer (both of `transformers`), and a list of words.   Out: a `Scorer`, with <unk> and </s>.
p(w|h) is the product of the probabilities of the pieces of w after h, and of the probability that no piece that goes on
with the word follows. A context is read once, then the pieces of all words as one trie, many prefixes a batch; of a
context that is longer than the model reads, the end. Of the first piece only those count that begin a word or end a
sentence: what stands between words (commas, quotes) is not asked for. </s> is that a sentence ends; <unk> is all the
rest, so each context adds up to one.
A prefix whose probability is below `least` is not looked into: its words share it alike. That saves most of the
work; least = 0 is exact. Does not train, and does not load models: whoever calls brings one.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm.scoring import Context, positions
from bayesgram.lm.trie import UNKNOWN
from bayesgram.text.ngrams import END, START

LEAST = 1e-5
BATCH = 256  # prefixes that the model reads at once
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

    @cached_property
    def fan(self) -> "_Fan":
        """The children, as arrays."""
        children = list(self.children.values())
        sizes = np.array([len(child.words) for child in children], np.int64)
        words = np.array([word for child in children for word in child.words], np.int64)
        pieces = np.array(list(self.children), np.int64)
        return _Fan(children, pieces, sizes, words, np.repeat(np.arange(sizes.size), sizes))


@dataclass(frozen=True, eq=False)
class _Fan:
    """What may follow a prefix."""

    children: list[_Node]
    pieces: Integers  # the next piece of each
    sizes: Integers  # how many words end at or below each
    words: Integers  # these words, child by child
    owners: Integers  # the child of each word


@dataclass(frozen=True, eq=False)
class _Kinds:
    """What each piece does after a finished word: begins another, ends the sentence; or goes on with the word."""

    begins: Bools
    ends: Bools
    goes_on: Bools

    @cached_property
    def columns(self) -> Floats:
        """Pieces × what is asked of all of them: is the word over, is the piece counted as a first one, does it end?"""
        return np.column_stack([~self.goes_on, self.begins | self.ends, self.ends]).astype(
            np.float64
        )


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
            raise UsageError.for_argument(
                "least", self.least, "below it words are not told apart; from 0 to less than 1."
            )
        if not any(word not in {START, END, UNKNOWN} for word in self.vocabulary):
            raise UsageError("vocabulary: no words in it; give those to predict.")
        if self.tokenizer.bos_token_id is None and self.tokenizer.eos_token_id is None:
            raise UsageError(
                "tokenizer: it has neither a bos_token nor an eos_token, with which a sentence begins."
            )
        positions(self.words)

    @cached_property
    def words(self) -> list[str]:
        """Those that were given, then </s> and <unk>."""
        return [word for word in self.vocabulary if word not in {START, END, UNKNOWN}] + [
            END,
            UNKNOWN,
        ]

    def log_probabilities(self, contexts: Sequence[Context]) -> Floats:
        """The logarithms of p of every word after each context."""
        likely = np.zeros((len(contexts), len(self.words)))
        for row, context in zip(likely, contexts, strict=True):
            self._fill(row, [self._start, *self._fitting(self._pieces(" ".join(context)))])
        likely[:, -1] = np.maximum(1 - likely[:, :-1].sum(axis=1), SMALLEST)
        logs: Floats = np.log(
            np.maximum(likely / likely.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        )
        return logs

    def _fill(self, likely: Floats, context: list[int]) -> None:
        """P of the words after a context, level by level of the trie."""
        following, cache = self._read(context)
        _, counted, ends = (following @ self._kinds.columns).tolist()
        likely[-2] = ends / counted
        level = list(self._shared(self._trie, following[self._trie.fan.pieces] / counted, likely))
        while level:
            level = list(self._next_level(level, context, cache, likely))

    def _next_level(
        self,
        level: list[tuple[_Node, float]],
        context: list[int],
        cache: Any,  # noqa: ANN401
        likely: Floats,
    ) -> Iterator[tuple[_Node, float]]:
        """Ask for what follows each prefix; words that end are noted, longer prefixes come back."""
        told = self._after(context, cache, [node for node, _ in level])
        for (node, reached), (over, following) in zip(level, told, strict=True):
            if node.word >= 0:
                likely[node.word] += reached * over
            yield from self._shared(node, reached * following, likely)

    def _shared(
        self, node: _Node, expected: Floats, likely: Floats
    ) -> Iterator[tuple[_Node, float]]:
        """The children that are looked into; the words of the others share what these have."""
        fan, rough = node.fan, expected < self.least
        likely[fan.words] += np.where(rough, expected / fan.sizes, 0.0)[fan.owners]
        for child in np.flatnonzero(~rough).tolist():
            yield fan.children[child], float(expected[child])

    def _read(self, context: list[int]) -> tuple[Floats, Any]:
        """P of every piece after a context, and what the model remembers of it."""
        torch = _torch()
        with torch.no_grad():
            said = self.model(
                input_ids=torch.tensor([context], device=self._device), use_cache=True
            )
        return torch.softmax(
            said.logits[0, -1].double(), dim=-1
        ).cpu().numpy(), said.past_key_values

    def _after(
        self,
        context: list[int],
        cache: Any,  # noqa: ANN401 - a type of transformers
        nodes: list[_Node],
    ) -> Iterator[tuple[float, Floats]]:
        """After the context and each prefix, all as long: p that the word is over, and p of the pieces of its fan."""
        torch = _torch()
        over = torch.tensor(self._kinds.columns[:, 0], device=self._device)
        for first in range(0, len(nodes), self.batch):
            some = nodes[first : first + self.batch]
            with torch.no_grad():
                logits = self._logits(context, cache, torch.tensor([node.pieces for node in some]))
            likely = torch.softmax(logits[:, -1].double(), dim=-1)
            sizes = [node.fan.pieces.size for node in some]
            rows = torch.tensor(np.repeat(np.arange(len(some)), sizes), device=self._device)
            pieces = torch.tensor(
                np.concatenate([node.fan.pieces for node in some]), device=self._device
            )
            found = likely[rows, pieces].cpu().numpy()
            yield from zip(
                (likely @ over).tolist(), np.split(found, np.cumsum(sizes)[:-1]), strict=True
            )

    def _logits(self, context: list[int], cache: Any, pieces: Any) -> Any:  # noqa: ANN401 - of torch
        """After the context and each row of pieces; the context is not read again where the model remembers it."""
        torch = _torch()
        if not hasattr(cache, "batch_repeat_interleave"):
            before = torch.tensor([context]).expand(len(pieces), -1)
            return self.model(input_ids=torch.cat([before, pieces], dim=1).to(self._device)).logits
        own = deepcopy(cache)
        own.batch_repeat_interleave(len(pieces))
        return self.model(input_ids=pieces.to(self._device), past_key_values=own).logits

    @property
    def _device(self) -> Any:  # noqa: ANN401
        return next(self.model.parameters()).device

    def _fitting(self, pieces: list[int]) -> list[int]:
        """The last pieces of a context, so that the model has places left for a beginning and the longest word."""
        places = getattr(self.model.config, "max_position_embeddings", None)
        if places is None:
            return pieces
        room = int(places) - 1 - self._longest
        if room < 0:
            raise UsageError(
                f"model: it reads {places} pieces, and a word of the list has {self._longest}."
            )
        return pieces[max(0, len(pieces) - room) :]

    @cached_property
    def _longest(self) -> int:
        """The pieces of the longest word."""
        level, longest = list(self._trie.children.values()), 0
        while level:
            level, longest = (
                [child for node in level for child in node.children.values()],
                longest + 1,
            )
        return longest

    def _pieces(self, text: str) -> list[int]:
        """The pieces of words as they stand within a text."""
        found: list[int] = (
            self.tokenizer.encode(self._space + text, add_special_tokens=False) if text else []
        )
        return found

    @cached_property
    def _space(self) -> str:
        """What stands before the first word; nothing where the tokenizer adds a space itself, as Llama's does."""
        first = self.tokenizer.convert_ids_to_tokens(
            self.tokenizer.encode("a", add_special_tokens=False)
        )[0]
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
            raise BayesgramError(
                "the tokenizer has no pieces for any of the words; is it the model's?"
            )
        return root

    @cached_property
    def _kinds(self) -> _Kinds:
        """By the first letter of each piece: a space, a sentence's end, a letter, or something else."""
        size = int(self.model.config.vocab_size)
        special = {*self.tokenizer.all_special_ids}
        raw = self.tokenizer.convert_ids_to_tokens(list(range(min(size, len(self.tokenizer)))))
        texts = [self._readable(piece or "") for piece in raw] + [""] * (size - len(raw))
        begins = np.array([text[:1] == " " and text[1:2].isalnum() for text in texts])
        ends = np.array(
            [text.lstrip(" ")[:1] in SENTENCE_ENDS and bool(text.strip(" ")) for text in texts]
        )
        goes_on = np.array(
            [text[:1].isalnum() or (text[:1] != "" and text[:1] in INSIDE) for text in texts]
        )
        of_model: Integers = np.array(sorted(each for each in special if each < size), np.int64)
        begins[of_model], goes_on[of_model], ends[of_model] = False, False, False
        ends[
            self.tokenizer.eos_token_id if self.tokenizer.eos_token_id is not None else self._start
        ] = True
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
