"""The language model of a release: the public model moved by the release, where there is one.

In go a release, and the public model of its vocabulary. Out come the language model that a keyboard
ships, and the reasons why it may be a rough one. `bayesgram export`, `bayesgram predict` and
`bayesgram.open_model` build models here. Everything is post-processing of published results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from bayesgram.arguments import check_arguments
from bayesgram.errors import Argument, UsageError
from bayesgram.lm.language_model import LanguageModel
from bayesgram.public.public_model import PublicModel, find_public_model
from bayesgram.releases import CARD_FILE
from bayesgram.releases.release import Release, check_vocabulary, is_made_with
from bayesgram.text.tokenizer import Tokenizer

# Words of public text, or of people's text, below which a model is called rough. Both are orders of
# magnitude and not measured: public models of the documents are of 2 to 20 million words.
MIN_PUBLIC_WORDS = 1_000_000
MIN_PRIVATE_WORDS = 100_000


@dataclass(frozen=True)
class ReleaseModel:
    """What the language model of a release is made of."""

    release: Release
    public: PublicModel | None  # the public model of its vocabulary; None for the release alone

    @classmethod
    def from_folder(
        cls,
        path: str | Path,
        public: str | Path | None = None,
        *,
        use_public: bool = True,
        release: Release | None = None,
    ) -> "ReleaseModel":
        """Load a release, and the public model of its vocabulary.

        Args:
            path: The folder of the release.
            public: The folder of the public model. Without it the model is looked for near the
                release (`find_public_model`).
            use_public: Whether a public model is used at all.
            release: The release, if it is loaded already.

        Raises:
            UsageError: If a public model is named and not to be used, or if several are found.
        """
        _check_public(public, use_public=use_public)
        release = release or Release.load(path)
        if not use_public:
            return cls(release, None)
        folder = find_public_model(release, Path(path)) if public is None else Path(public)
        return cls(release, None if folder is None else PublicModel.load(folder))

    @property
    def builder(self) -> Callable[[int | None], LanguageModel]:
        """A function from the number of n-grams that may stay, None for all, to the model."""
        if self.public is None:
            return LanguageModel.builder_from_release(self.release)
        model = self.public.adapt_to(self.release)
        return lambda prune: model if prune is None else model.prune(prune)

    @property
    def roughness(self) -> list[str]:
        """Why the model is rough and what to do about it, in sentences; empty for a good one."""
        reasons = []
        is_of_rows = self.release.tokenizer.is_rows  # which no public text has
        if self.public is None and not is_of_rows:
            reasons.append(
                "It knows the n-grams of the release and no other public text. `bayesgram vocab`"
                " keeps a public model beside the vocabulary; leave it near the release, or name"
                " its folder."
            )
        orders = self.release.card.vocabulary.get("orders", [])
        if len(orders) == 1 and not is_of_rows:
            reasons.append(
                f"The release has n-grams of one length only (order {orders[0]}). Make the"
                " vocabulary with the default orders, so that it has words, pairs and triples."
            )
        if self.public is not None and _public_words(self.public) < MIN_PUBLIC_WORDS:
            reasons.append(
                f"The public text is short: about {_public_words(self.public):,} words of the"
                f" vocabulary. Use {MIN_PUBLIC_WORDS:,} or more."
            )
        words = _private_words(self.release)
        if words is not None and words < MIN_PRIVATE_WORDS:
            reasons.append(
                f"People's text is short: about {words:,.0f} listed n-grams, counted with noise and"
                " up to the clip norm. Release more text, or more people's."
            )
        return reasons


class PublicModels:
    """The public models that several releases start from, each loaded once.

    A model that is named is for the releases of its vocabulary. For others one is looked for near
    the release (`find_public_model`).

    Args:
        public: The folder of a public model, if one is named.
        use_public: Whether public models are used at all.

    Raises:
        UsageError: If a public model is named and not to be used.
    """

    def __init__(self, public: str | Path | None = None, *, use_public: bool = True) -> None:
        _check_public(public, use_public=use_public)
        self._use_public = use_public
        self._load = cache(PublicModel.load)
        self.named = None if public is None else self._load(Path(public))

    def find(self, release: Release, path: str | Path | None) -> PublicModel | None:
        """Return the public model that a release starts from; None for the release alone.

        Args:
            release: The release.
            path: Its folder; None if it is in memory only.
        """
        if self.named is not None and is_made_with(release, self.named.vocabulary):
            return self.named
        if not self._use_public or path is None:
            return None
        folder = find_public_model(release, Path(path))
        return None if folder is None else self._load(folder)

    def check_named(self, releases: Sequence[tuple[str, Release]]) -> None:
        """Refuse a named model that belongs to none of these releases, which have names.

        Raises:
            UsageError: If there is none of its vocabulary.
        """
        if self.named is None:
            return
        vocabulary = self.named.vocabulary
        if any(is_made_with(release, vocabulary) for _, release in releases):
            return
        for name, release in releases:
            check_vocabulary(release, vocabulary, name=name, vocabulary_name="the public model")
        raise UsageError(Argument("public"), ": is for a release, and none is given; leave it out.")


def _check_public(public: str | Path | None, *, use_public: bool) -> None:
    if public is not None and not use_public:
        raise UsageError("public: a public model is named, and none is to be used; give one.")


def _public_words(public: PublicModel) -> int:
    """Return how many n-grams of the lowest order the public text of a vocabulary has, listed."""
    _, shortest = public.vocabulary.by_order[0]
    return int(shortest.counts_by_source.sum())


def _private_words(release: Release) -> float | None:
    """Return the noisy total of the lowest order on the card; None if it has none."""
    totals = release.card.details.get("expected_counts", {})
    return totals[min(totals, key=int)] if totals else None


@check_arguments
def open_model(
    path: str | Path,
    *,
    public: str | Path | None = None,
    use_public: bool = True,
    tokenizer: Tokenizer | None = None,
) -> LanguageModel:
    """Open a language model: a release folder, a model folder or an ARPA file.

    The model of a release starts from the public model of its vocabulary, which `bayesgram vocab`
    keeps beside the vocabulary. It is found by itself if it is near the release.

    Args:
        path: The folder or file.
        public: The public model, for a release whose public model is elsewhere.
        use_public: Whether a public model is used. Without it the model of a release is rough.
        tokenizer: How text is cut, for an ARPA file, which doesn't say it. Where text is cut by a
            tokenizer.json, it brings that file.
    """
    if not (Path(path) / CARD_FILE).is_file():
        if public is not None:
            raise UsageError(f"public: is for a release, and {path} is none; leave it out.")
        return LanguageModel.open(path, tokenizer=tokenizer)
    model = ReleaseModel.from_folder(path, public, use_public=use_public).builder(None)
    return replace(model, tokenizer=model.tokenizer.with_definition_of(tokenizer))
