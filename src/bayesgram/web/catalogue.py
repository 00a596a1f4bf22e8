"""Everything the page shows, in memory: releases, their models and tables, and public text where it is given.

Built once at start. Does not change afterwards, so that threads may read it.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from bayesgram.arrays import Floats
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.released.language_model import LanguageModel
from bayesgram.released.release import Release, fits
from bayesgram.released.report_views import ReleaseView
from bayesgram.text.ngrams import distinct_orders
from bayesgram.text.tokens import Tokenizer, buffers
from bayesgram.web.table import Index, OrderTable

PUBLIC = "public text"

Step = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, eq=False)
class Item:
    """A release, as the page has it."""

    view: ReleaseView
    model: LanguageModel
    tables: dict[int, OrderTable]  # by order


@dataclass(frozen=True, eq=False)
class Catalogue:
    """What the page reads."""

    items: list[Item]
    vocabulary: Vocabulary | None = None
    public_model: LanguageModel | None = None


@dataclass
class Builder:
    """Loads a catalogue release by release; says what it is doing."""

    step: Step
    vocabulary: Vocabulary | None = None  # what is planned with, and typed with as public text
    tokenizer: Tokenizer | None = None  # brings the file of releases whose text is cut by a tokenizer.json
    public: PublicModel | None = None  # what releases move, where it is given
    others: Sequence[Vocabulary] = ()  # of releases that were made with another one
    _indices: dict[str, dict[int, Index]] = field(default_factory=dict)  # by vocabulary

    def catalogue(self, releases: Sequence[tuple[str, Release]]) -> Catalogue:
        """The page's data; models are tried once, so that the first person doesn't wait for a compiler."""
        public_model = None
        if self.vocabulary is not None:
            with self.step("Building the model of public text"):
                public_model = self._tried(self._public(self.vocabulary))
        return Catalogue([self._item(name, release) for name, release in releases], self.vocabulary, public_model)

    def _item(self, name: str, release: Release) -> Item:
        own = next((each for each in self._vocabularies if fits(release, each)), None)
        public = None if own is None else own.prior
        view = ReleaseView(name, release, public)
        with self.step(f"Building the model of {view.shown_name}"):
            moves = self.public if own is self.vocabulary else None  # one of another vocabulary stays as it is
            model = LanguageModel.from_release(release) if moves is None else moves.moved_by(release)
            model = self._tried(model)
        with self.step(f"Sorting the n-grams of {view.shown_name}"):
            tables = self._tables(release, public)
        return Item(view, model, tables)

    @property
    def _vocabularies(self) -> list[Vocabulary]:
        return [*([] if self.vocabulary is None else [self.vocabulary]), *self.others]

    def _public(self, vocabulary: Vocabulary) -> LanguageModel:
        if self.public is not None:
            return self.public.mixture
        counts = vocabulary.counts.astype(np.float64)
        return LanguageModel.from_counts(vocabulary.ngrams, counts, vocabulary.tokenizer)

    def _tried(self, model: LanguageModel) -> LanguageModel:
        """The model, able to cut text and compiled."""
        model = replace(model, tokenizer=model.tokenizer.known_by(self.tokenizer))
        model.predict("", 1)
        return model

    def _tables(self, release: Release, public: Floats | None) -> dict[int, OrderTable]:
        indices = self._indices.setdefault(_content(release.ngrams), {})
        orders, tables = release.orders, {}
        for order in distinct_orders(orders):
            if order not in indices:
                indices[order] = Index.of(release.ngrams, np.flatnonzero(orders == order))
            tables[order] = OrderTable(release, public, indices[order])
            tables[order].index.find("")  # builds what a search needs
            tables[order].orderings  # noqa: B018 - builds what paging needs
        return tables


def _content(ngrams: pa.LargeStringArray) -> str:
    """What two releases share if they have the same n-grams in the same rows."""
    data, offsets = buffers(ngrams.cast(pa.large_binary()))
    digest = hashlib.sha256((offsets - offsets[0]).tobytes())
    digest.update(data[offsets[0] : offsets[-1]].tobytes())
    return digest.hexdigest()
