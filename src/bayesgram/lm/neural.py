"""Hugging Face causal models as scorers of words: words are put together from the model's pieces.

In go a model and its tokenizer (both of `transformers`, an extra) and a list of words; out comes a
`Scorer`, with <unk> and </s>. Nothing is trained or loaded here: the caller brings the model.

p(w|h) is the product of the probabilities of the pieces of w after h, and of the probability that
no piece follows that goes on with the word. A context is read once, then the pieces of all words as
one trie, many prefixes a batch; of a context that is longer than the model reads, the end. As the
first piece only those count that begin a word or end a sentence: what stands between words (commas,
quotes) is not predicted. </s> is that a sentence ends; <unk> is all the rest, so each context adds
up to one.

A prefix whose probability is below `least` is not looked into: its words share it equally. That
saves most of the work; least = 0 is exact.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesgram.arrays import Bools, Floats, Integers
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm.scoring import Context, index_words
from bayesgram.lm.trie import UNKNOWN
from bayesgram.text.ngrams import END, START

DEFAULT_LEAST = 1e-5  # probability of a prefix below which it is not looked into; not measured
BATCH_SIZE = 256  # prefixes that the model reads at once; not measured
MIN_UNKNOWN = 1e-12  # least probability of <unk>, which stands for something
SENTENCE_ENDS = ".!?…\n\r。！？"
# Characters that go on with a word, beside letters and digits; the last is a part of a character.
WORD_CHARACTERS = "'’_\ufffd"
SPACES = ("Ġ", "▁", " ")  # how GPT-2, SentencePiece and others write the space before a word


# --- Words as a trie of pieces ---


@dataclass(frozen=True, eq=False)
class _PieceNode:
    """A prefix of words, in pieces."""

    pieces: tuple[int, ...]
    word: int = -1  # the index of the word that ends here
    children: "dict[int, _PieceNode]" = field(default_factory=dict)  # by the next piece

    @cached_property
    def words(self) -> list[int]:
        """The indices of all words that end here or below."""
        below = [word for child in self.children.values() for word in child.words]
        return below if self.word < 0 else [self.word, *below]

    @cached_property
    def child_arrays(self) -> "_Children":
        """The children, as arrays that a batch can index."""
        children = list(self.children.values())
        sizes = np.array([len(child.words) for child in children], np.int64)
        return _Children(
            children=children,
            pieces=np.array(list(self.children), np.int64),
            sizes=sizes,
            words=np.array([word for child in children for word in child.words], np.int64),
            owners=np.repeat(np.arange(sizes.size), sizes),
        )


@dataclass(frozen=True, eq=False)
class _Children:
    """The prefixes that are one piece longer than a prefix, as arrays."""

    children: list[_PieceNode]
    pieces: Integers  # the next piece of each child
    sizes: Integers  # how many words end at or below each child
    words: Integers  # the indices of these words, child by child
    owners: Integers  # the child of each word


@dataclass(frozen=True, eq=False)
class _PieceRoles:
    """What each piece of the model does after a finished word; all may be False."""

    begins_word: Bools
    ends_sentence: Bools
    continues_word: Bools

    @cached_property
    def columns(self) -> Floats:
        """Pieces × 3: the word is over; counts as a first piece; ends the sentence."""
        is_first = self.begins_word | self.ends_sentence
        columns = [~self.continues_word, is_first, self.ends_sentence]
        return np.column_stack(columns).astype(np.float64)


def _build_piece_trie(words: list[tuple[int, ...]]) -> _PieceNode:
    """Return a trie of words in pieces; of words with the same pieces, only the first is there."""
    root = _PieceNode(())
    nodes: dict[tuple[int, ...], _PieceNode] = {(): root}
    first_words: dict[tuple[int, ...], int] = {}
    for word, pieces in enumerate(words):
        if not pieces or first_words.setdefault(pieces, word) != word:
            continue
        for end in range(1, len(pieces) + 1):
            if pieces[:end] not in nodes:
                node = _PieceNode(pieces[:end], word if end == len(pieces) else -1)
                nodes[pieces[:end]] = node
                nodes[pieces[: end - 1]].children[pieces[end - 1]] = node
        if nodes[pieces].word != word:  # a prefix that was there already is a word too
            node = _PieceNode(pieces, word, nodes[pieces].children)
            nodes[pieces] = node
            nodes[pieces[:-1]].children[pieces[-1]] = node
    return root


# --- The scorer ---


@dataclass(frozen=True, eq=False)
class CausalScorer:
    """A causal model of `transformers` as a scorer of words.

    The tokenizer is one that writes a space before a word into its first piece, as those of GPT-2
    and Llama do.

    Args:
        model: The model, which gives logits of the next piece.
        tokenizer: Its tokenizer.
        vocabulary: The words to predict; </s> and <unk> are added.
        least: The probability below which a prefix is not looked into, and its words share it
            equally. 0 is exact, and slow.
        batch: How many prefixes the model reads at once.

    Example (it loads a network, so it is not run as a test):
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer  # doctest: +SKIP
        >>> network = AutoModelForCausalLM.from_pretrained("gpt2")  # doctest: +SKIP
        >>> pieces = AutoTokenizer.from_pretrained("gpt2")  # doctest: +SKIP
        >>> scorer = CausalScorer(network, pieces, ["see", "you", "soon"])  # doctest: +SKIP
        >>> scorer.log_probabilities([["see", "you"]]).shape  # doctest: +SKIP
        (1, 5)
    """

    model: Any
    tokenizer: Any
    vocabulary: Sequence[str]
    least: float = DEFAULT_LEAST
    batch: int = BATCH_SIZE

    def __post_init__(self) -> None:
        _import_torch()
        if not 0 <= self.least < 1:
            raise UsageError.for_argument(
                "least", self.least, "below it words are not told apart; from 0 to less than 1."
            )
        if not any(word not in {START, END, UNKNOWN} for word in self.vocabulary):
            raise UsageError("vocabulary: no words in it; give those to predict.")
        if self.tokenizer.bos_token_id is None and self.tokenizer.eos_token_id is None:
            raise UsageError(
                "tokenizer: it has neither a bos_token nor an eos_token,"
                " with which a sentence begins."
            )
        index_words(self.words)  # refuses a list that has a word twice

    @cached_property
    def words(self) -> list[str]:
        """The words of the vocabulary, then </s> and <unk>."""
        words = [word for word in self.vocabulary if word not in {START, END, UNKNOWN}]
        return [*words, END, UNKNOWN]

    def log_probabilities(self, contexts: Sequence[Context]) -> Floats:
        """Return the logarithms of p of every word after each context."""
        probabilities = np.zeros((len(contexts), len(self.words)))
        for row, context in zip(probabilities, contexts, strict=True):
            pieces = self._cut_to_fit(self._encode(" ".join(context)))
            self._add_word_probabilities([self._start_piece, *pieces], row)
        probabilities[:, -1] = np.maximum(1 - probabilities[:, :-1].sum(axis=1), MIN_UNKNOWN)
        normalised = probabilities / probabilities.sum(axis=1, keepdims=True)
        logs: Floats = np.log(np.maximum(normalised, np.finfo(np.float64).tiny))
        return logs

    def _add_word_probabilities(self, context: list[int], probabilities: Floats) -> None:
        """Add p of the words after a context to their places, level by level of the trie."""
        next_piece, cache = self._read_context(context)
        _, first_piece, sentence_end = (next_piece @ self._roles.columns).tolist()
        probabilities[-2] = sentence_end / first_piece
        expected = next_piece[self._trie.child_arrays.pieces] / first_piece
        level = list(self._split_children(self._trie, expected, probabilities))
        while level:
            level = list(self._next_level(level, context, cache, probabilities))

    def _next_level(
        self,
        level: list[tuple[_PieceNode, float]],
        context: list[int],
        cache: Any,  # noqa: ANN401 - a type of transformers
        probabilities: Floats,
    ) -> Iterator[tuple[_PieceNode, float]]:
        """Read what follows each prefix: add words that end, and yield the longer prefixes.

        Args:
            level: Prefixes of one length, and their probabilities.
            context: The pieces before them.
            cache: What the model remembers of the context.
            probabilities: Those of words, which are added to.
        """
        following = self._read_prefixes(context, cache, [node for node, _ in level])
        for (node, probability), (word_over, next_pieces) in zip(level, following, strict=True):
            if node.word >= 0:
                probabilities[node.word] += probability * word_over
            yield from self._split_children(node, probability * next_pieces, probabilities)

    def _split_children(
        self, node: _PieceNode, expected: Floats, probabilities: Floats
    ) -> Iterator[tuple[_PieceNode, float]]:
        """Yield the children that are looked into; the words of the others share their part."""
        child_arrays = node.child_arrays
        is_rough = expected < self.least
        word_shares = np.where(is_rough, expected / child_arrays.sizes, 0.0)
        probabilities[child_arrays.words] += word_shares[child_arrays.owners]
        for child in np.flatnonzero(~is_rough).tolist():
            yield child_arrays.children[child], float(expected[child])

    # --- Asking the model ---

    def _read_context(self, context: list[int]) -> tuple[Floats, Any]:
        """Return p of every piece after a context, and what the model remembers of it."""
        torch = _import_torch()
        with torch.no_grad():
            output = self.model(
                input_ids=torch.tensor([context], device=self._device), use_cache=True
            )
        probabilities = torch.softmax(output.logits[0, -1].double(), dim=-1)
        return probabilities.cpu().numpy(), output.past_key_values

    def _read_prefixes(
        self,
        context: list[int],
        cache: Any,  # noqa: ANN401 - a type of transformers
        nodes: list[_PieceNode],
    ) -> Iterator[tuple[float, Floats]]:
        """Yield, after the context and each prefix, what may follow; all prefixes are equally long.

        Yields:
            p that the word is over, and p of the next pieces of the prefix.
        """
        torch = _import_torch()
        ends_word = torch.tensor(self._roles.columns[:, 0], device=self._device)
        for first in range(0, len(nodes), self.batch):
            batch = nodes[first : first + self.batch]
            with torch.no_grad():
                logits = self._logits(context, cache, torch.tensor([node.pieces for node in batch]))
            probabilities = torch.softmax(logits[:, -1].double(), dim=-1)
            sizes = [node.child_arrays.pieces.size for node in batch]
            rows = torch.tensor(np.repeat(np.arange(len(batch)), sizes), device=self._device)
            pieces = torch.tensor(
                np.concatenate([node.child_arrays.pieces for node in batch]), device=self._device
            )
            next_pieces = probabilities[rows, pieces].cpu().numpy()
            yield from zip(
                (probabilities @ ends_word).tolist(),
                np.split(next_pieces, np.cumsum(sizes)[:-1]),
                strict=True,
            )

    def _logits(self, context: list[int], cache: Any, pieces: Any) -> Any:  # noqa: ANN401
        """Return logits after the context and each row of pieces.

        The context is not read again where the model remembers it.
        """
        torch = _import_torch()
        if not hasattr(cache, "batch_repeat_interleave"):
            before = torch.tensor([context]).expand(len(pieces), -1)
            return self.model(input_ids=torch.cat([before, pieces], dim=1).to(self._device)).logits
        batch_cache = deepcopy(cache)
        batch_cache.batch_repeat_interleave(len(pieces))
        return self.model(input_ids=pieces.to(self._device), past_key_values=batch_cache).logits

    @property
    def _device(self) -> Any:  # noqa: ANN401 - a type of torch
        return next(self.model.parameters()).device

    # --- Pieces ---

    def _encode(self, text: str) -> list[int]:
        """Return the pieces of words as they stand within a text."""
        if not text:
            return []
        pieces: list[int] = self.tokenizer.encode(self._space + text, add_special_tokens=False)
        return pieces

    def _cut_to_fit(self, pieces: list[int]) -> list[int]:
        """Return the end of a context that leaves room for a beginning and the longest word."""
        max_pieces = getattr(self.model.config, "max_position_embeddings", None)
        if max_pieces is None:
            return pieces
        available = int(max_pieces) - 1 - self._longest_word
        if available < 0:
            raise UsageError(
                f"model: it reads {max_pieces} pieces,"
                f" and a word of the list has {self._longest_word}."
            )
        return pieces[max(0, len(pieces) - available) :]

    @cached_property
    def _longest_word(self) -> int:
        """The number of pieces of the longest word."""
        level = list(self._trie.children.values())
        longest = 0
        while level:
            level = [child for node in level for child in node.children.values()]
            longest += 1
        return longest

    @cached_property
    def _space(self) -> str:
        """What stands before the first word; nothing if the tokenizer adds a space, as Llama's."""
        pieces = self.tokenizer.encode("a", add_special_tokens=False)
        first = self.tokenizer.convert_ids_to_tokens(pieces)[0]
        return "" if first.startswith(SPACES) else " "

    @cached_property
    def _start_piece(self) -> int:
        """The piece with which a sentence begins."""
        begin = self.tokenizer.bos_token_id
        return int(self.tokenizer.eos_token_id if begin is None else begin)

    @cached_property
    def _trie(self) -> _PieceNode:
        root = _build_piece_trie([tuple(self._encode(word)) for word in self.words[:-2]])
        if not root.children:
            raise BayesgramError(
                "the tokenizer has no pieces for any of the words; is it the model's?"
            )
        return root

    @cached_property
    def _roles(self) -> _PieceRoles:
        """By the first letter of each piece: a space, a sentence's end, a letter, or else."""
        size = int(self.model.config.vocab_size)
        pieces = self.tokenizer.convert_ids_to_tokens(list(range(min(size, len(self.tokenizer)))))
        texts = [self._to_text(piece or "") for piece in pieces] + [""] * (size - len(pieces))
        begins_word = np.array([text[:1] == " " and text[1:2].isalnum() for text in texts])
        ends_sentence = np.array(
            [text.lstrip(" ")[:1] in SENTENCE_ENDS and bool(text.strip(" ")) for text in texts]
        )
        continues_word = np.array(
            [
                text[:1].isalnum() or (text[:1] != "" and text[:1] in WORD_CHARACTERS)
                for text in texts
            ]
        )
        special: Integers = np.array(
            sorted(piece for piece in {*self.tokenizer.all_special_ids} if piece < size), np.int64
        )
        begins_word[special] = False
        continues_word[special] = False
        ends_sentence[special] = False
        end = self.tokenizer.eos_token_id
        ends_sentence[end if end is not None else self._start_piece] = True
        first_pieces = list(self._trie.children)
        begins_word[first_pieces] = True
        ends_sentence[first_pieces] = False
        return _PieceRoles(begins_word, ends_sentence, continues_word)

    def _to_text(self, piece: str) -> str:
        """Return the text of a piece, with one space where a word begins."""
        text: str = self.tokenizer.convert_tokens_to_string([piece])
        return " " * piece.startswith(SPACES) + text.lstrip(" ")


def _import_torch() -> Any:  # noqa: ANN401 - a module, which may not be there
    try:
        import torch  # noqa: PLC0415
    except ModuleNotFoundError:
        raise UsageError(
            "CausalScorer needs torch and transformers, which are not installed:"
            " pip install 'bayesgram[transformers]'"
        ) from None
    return torch
