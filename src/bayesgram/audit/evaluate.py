"""Judge releases and language models by private counts and text: `bayesgram evaluate`, from Python.

In:  releases or models, and private counts, the private text, or held-out text.
Out: an `Evaluation`. It is computed without noise, for the keeper of the data only.

`evaluate` reads everything itself. The command reads with a progress bar, and calls
`evaluate_candidates`, which does the work for both.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bayesgram.arguments import check_arguments
from bayesgram.audit.evaluation import DISCLOSURE, PUBLIC_ALONE, kl_by_order, totals_for
from bayesgram.audit.ngram_evaluation import PrivateNgrams, ReleaseEvaluation, evaluate_release
from bayesgram.audit.text_evaluation import EvaluatedModel, Rows, TextEvaluation, TextQuality
from bayesgram.errors import Argument, UsageError
from bayesgram.io import read_records
from bayesgram.lm.files import MODEL_JSON
from bayesgram.lm.language_model import LanguageModel
from bayesgram.notebook import html
from bayesgram.private.counts import PrivateCounts, SegmentedCounts
from bayesgram.public.mixture import inputs_by_source
from bayesgram.public.public_model import PublicModel
from bayesgram.public.release_model import PublicModels, ReleaseModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases import CARD_FILE
from bayesgram.releases.release import Release, check_vocabulary, is_made_with
from bayesgram.reports.report import Score
from bayesgram.text.ngrams import ngram_orders
from bayesgram.text.tokenizer import Tokenizer

PRIVATE = "private counts (not for publication)"  # the name of a model of the exact counts

# Says what is being done, for as long as it is, and yields what gets the share that is done
# (`console.progress`).
Progress = Callable[[str], AbstractContextManager[Callable[[float], None]]]


@contextmanager
def _no_progress(_label: str) -> Iterator[Callable[[float], None]]:
    yield lambda _share: None


# --- Results ---


@dataclass(frozen=True, repr=False)
class Evaluation:
    """How good releases or models are. Private: computed from private data without noise.

    Attributes:
        divergences: With `counts`: the KL divergence of public text and of every release, for each
            order.
        quality: With `private_text`, or with `counts` and a vocabulary: coverage and the error that
            is removed, for each release and order.
        models: With `text`: every model, what it claims, and how good it is on held-out text.
        same_words: Whether the models know the same words, so that their perplexities compare.
    """

    divergences: tuple[Score, ...] = ()
    quality: tuple[ReleaseEvaluation, ...] = ()
    models: tuple[EvaluatedModel, ...] = ()
    same_words: bool = True

    @property
    def longest_divergences(self) -> tuple[Score, ...]:
        """The KL divergences of the longest n-grams that people wrote."""
        longest = max((score.order for score in self.divergences), default=0)
        return tuple(score for score in self.divergences if score.order == longest)

    @property
    def texts(self) -> dict[str, TextQuality]:
        """The quality of each model on held-out text, by its name."""
        return {model.name: model.quality for model in self.models}

    def to_json(self) -> dict[str, Any]:
        """Return the values as `bayesgram evaluate --json` writes them, with what was judged by."""
        document: dict[str, Any] = {"warning": DISCLOSURE}
        if self.divergences:
            document["releases"] = [asdict(score) for score in self.longest_divergences]
            document["divergences"] = [asdict(score) for score in self.divergences]
        if self.quality:
            document["quality"] = [quality.to_json() for quality in self.quality]
        if self.models:
            document["text"] = [model.to_json() for model in self.models]
            document["same_words"] = self.same_words
        return document

    def __repr__(self) -> str:
        names = dict.fromkeys(
            [
                *(score.release for score in self.divergences),
                *(quality.release for quality in self.quality),
                *self.texts,
            ]
        )
        return f"Evaluation(private, of {', '.join(names)})"

    def _repr_html_(self) -> str:
        """Show the numbers in a notebook, with the warning that they are private."""
        rows = [
            (
                score.release,
                f"KL, order {score.order}",
                "∞" if score.kl is None else f"{score.kl:.4f}",
            )
            for score in self.divergences
        ]
        for quality in self.quality:
            if quality.coverage is not None:
                name = f"coverage, order {quality.order}"
                rows.append((quality.release, name, f"{quality.coverage:.0%}"))
            if quality.error_removed is not None:
                name = f"public text's error removed, order {quality.order}"
                rows.append((quality.release, name, f"{quality.error_removed:.0%}"))
        for model, result in self.texts.items():
            rows.append((model, "perplexity", f"{result.perplexity:.1f}"))
            rows.append((model, "first suggestion right", f"{result.accuracy_1:.1%}"))
            rows.append((model, "keystrokes saved", f"{result.keystrokes_saved:.1%}"))
        return html("Evaluation", [("Private", DISCLOSURE)], ("what", "measure", "value"), rows)


# --- What is judged ---


@dataclass(frozen=True, eq=False)
class Candidate:
    """A release or a language model that is judged.

    Attributes:
        name: What tables of language models call it.
        title: What tables of releases call it.
        source: A release, a language model, or the file or folder of a language model.
        public: The public model that the language model of a release starts from, if there is one.
        tokenizer: How text is cut, for models that don't say it.
    """

    name: str
    title: str
    source: Release | LanguageModel | Path
    public: PublicModel | None = None
    tokenizer: Tokenizer | None = None

    @classmethod
    def from_model(
        cls,
        name: str,
        model: object,
        publics: PublicModels,
        *,
        tokenizer: Tokenizer | None = None,
        is_release: bool = False,
        title: str | None = None,
    ) -> "Candidate":
        """Return a release, a language model, or the path of one as a candidate.

        Args:
            name: What it is called.
            model: A release, a language model, or a path.
            publics: Where the public models of releases come from.
            tokenizer: How text is cut, for models that don't say it.
            is_release: Whether it must be a release.
            title: What tables of releases call it; its name without one.

        Raises:
            UsageError: If it is neither a release nor a model, or no release and must be one.
        """
        source: object = model
        folder = None
        if isinstance(model, str | Path):
            folder = Path(model)
            is_folder_of_release = is_release or (folder / CARD_FILE).is_file()
            source = Release.load(folder) if is_folder_of_release else folder
        if isinstance(source, Release):
            public = publics.find(source, folder)
            return cls(name, title or name, source, public, tokenizer)
        if is_release:
            raise UsageError(
                f"models: {name!r} is no release; give a release or the folder of one. Language"
                " models are judged by `text`."
            )
        if not isinstance(source, LanguageModel | Path):
            raise UsageError(
                f"models: {type(source).__name__} is no model; give a release, a language model, or"
                " the path of one."
            )
        return cls(name, title or name, source, None, tokenizer)

    @property
    def release(self) -> Release | None:
        """The release; None for a language model."""
        return self.source if isinstance(self.source, Release) else None

    def open_model(self) -> LanguageModel:
        """Return the language model, which may take a while."""
        if isinstance(self.source, LanguageModel):
            return self.source
        if isinstance(self.source, Path):
            return LanguageModel.open(self.source, tokenizer=self.tokenizer)
        model = ReleaseModel(self.source, self.public).builder(None)
        return replace(model, tokenizer=model.tokenizer.with_definition_of(self.tokenizer))

    def check(self) -> None:
        """Refuse a path that is no model, without reading one that is."""
        if not isinstance(self.source, Path) or self.source.is_file():
            return
        if not (self.source / MODEL_JSON).is_file():
            self.open_model()  # fails, and says why


# --- Evaluating ---


@check_arguments
def evaluate(
    models: Any,  # noqa: ANN401 - one or several, in memory or as paths
    *,
    counts: PrivateCounts | SegmentedCounts | None = None,
    private_text: Any = None,  # noqa: ANN401 - paths or tables, see bayesgram.io
    text: Any = None,  # noqa: ANN401 - paths or tables, see bayesgram.io; or several with names
    vocabulary: Vocabulary | None = None,
    public: str | Path | None = None,
    use_public: bool = True,
    tokenizer: Tokenizer | None = None,
    text_column: str = "text",
) -> Evaluation:
    """Judge releases and language models. The result is for the keeper of the data only.

    Args:
        models: A release or its folder; or several by name: {"ε = 1": release, "old": "out-old"}.
            With `text` also language models, model folders and ARPA files.
        counts: The private counts that the releases were made from.
        private_text: The private text that the releases were made from.
        text: Held-out text, of people whom no release has seen (`split`).
        vocabulary: The vocabulary of the releases: public text is judged, too.
        public: The public model that the language models of releases start from. Without it the
            model is looked for near the folder of the release, as `open_model` does.
        use_public: Whether public models are used. Without one the model of a release is rough.
        tokenizer: How text is cut, for models that don't say it.
        text_column: The column that holds the text.

    Raises:
        UsageError: If there is nothing to judge by, or something is no release.

    Example:
        >>> import bayesgram as bg
        >>> import pyarrow as pa
        >>> public = pa.table({"text": ["the red fish", "the blue fish"]})
        >>> vocabulary = bg.Vocabulary.from_public(public, order=1)
        >>> private = pa.table({"user": ["ann", "bob"], "text": ["the fish", "a fish"]})
        >>> counts = bg.count(private, vocabulary)
        >>> release = bg.release(counts, vocabulary, epsilon=1, seed=1)
        >>> bg.evaluate(release, counts=counts, private_text=private)
        Evaluation(private, of release)
    """
    if counts is None and private_text is None and text is None:
        raise UsageError(
            "nothing to judge by: give counts, private_text with the text of the releases, or text"
            " with held-out text."
        )
    publics = PublicModels(public, use_public=use_public)
    named = dict(models) if isinstance(models, Mapping) else {"release": models}
    candidates = [
        Candidate.from_model(name, model, publics, tokenizer=tokenizer, is_release=text is None)
        for name, model in named.items()
    ]
    publics.check_named(
        [(candidate.name, candidate.release) for candidate in candidates if candidate.release]
    )

    def read_rows(source: Any) -> Rows:  # noqa: ANN401 - paths or tables
        records = read_records(source, text_column=text_column, user_column=None)
        return [batch.text for batch in records]

    def read_texts() -> dict[str, Rows]:
        return {name: read_rows(source) for name, source in inputs_by_source(text).items()}

    return evaluate_candidates(
        candidates,
        counts=counts,
        read_private_text=None if private_text is None else partial(read_rows, private_text),
        read_texts=None if text is None else read_texts,
        vocabulary=vocabulary,
        tokenizer=tokenizer,
    )


def evaluate_candidates(
    candidates: Sequence[Candidate],
    *,
    counts: PrivateCounts | SegmentedCounts | None = None,
    read_private_text: Callable[[], Rows] | None = None,
    read_texts: Callable[[], Mapping[str, Rows]] | None = None,
    vocabulary: Vocabulary | None = None,
    tokenizer: Tokenizer | None = None,
    show_progress: Progress = _no_progress,
) -> Evaluation:
    """Judge candidates by everything that is given.

    Args:
        candidates: Releases and language models.
        counts: The private counts that the releases were made from.
        read_private_text: Reads the private text of the releases, if there is some to judge by. It
            is called when all arguments are known to be right.
        read_texts: Reads held-out texts, by name, if there are some.
        vocabulary: The vocabulary of the releases, if it is known.
        tokenizer: How private text is cut, where a release names a tokenizer.json.
        show_progress: Says what is being done, and how far it is.

    Raises:
        UsageError: If counts or the private text can't judge these candidates.
    """
    releases = {
        candidate.title: candidate.release
        for candidate in candidates
        if candidate.release is not None
    }
    divergences: list[Score] = []
    if counts is not None:
        divergences = _divergences(releases, counts, vocabulary)
    if read_private_text is not None:
        _check_private_text(releases, vocabulary)
    if read_texts is not None:
        for candidate in candidates:
            candidate.check()
    private_ngrams = None
    if read_private_text is not None:
        rows = read_private_text()
        with show_progress("Counting n-grams"):
            private_ngrams = _count_ngrams(rows, releases, vocabulary, tokenizer)
    quality = _evaluate_releases(releases, counts, private_ngrams, vocabulary)
    texts = TextEvaluation({} if read_texts is None else read_texts())
    if read_texts is not None:
        for name, model in _baselines(candidates, counts, vocabulary):
            with show_progress(f"Predicting with {name}") as on_progress:
                texts.add(name, model, on_progress=on_progress)
        for candidate in candidates:
            with show_progress(f"Predicting with {candidate.name}") as on_progress:
                model = candidate.open_model()
                texts.add(candidate.name, model, path=candidate.title, on_progress=on_progress)
    return Evaluation(tuple(divergences), tuple(quality), tuple(texts.results), texts.same_words)


def _divergences(
    releases: Mapping[str, Release],
    counts: PrivateCounts | SegmentedCounts,
    vocabulary: Vocabulary | None,
) -> list[Score]:
    """Return the KL divergence of public text, where it is known, and of the releases."""
    if not releases and vocabulary is None:
        raise UsageError("counts: judge releases, and there is none; give one, or leave them out.")
    for release in releases.values():
        counts.check_vocabulary(len(release.ngrams), release.card.vocabulary["fingerprint"])
    if vocabulary is None:
        return kl_by_order(counts, list(releases.items()), None)
    counts.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
    orders = ngram_orders(vocabulary.ngrams, vocabulary.tokenizer)
    return kl_by_order(counts, list(releases.items()), vocabulary.prior, orders)


# --- Coverage, error removed and top n-grams ---


def _check_private_text(releases: Mapping[str, Release], vocabulary: Vocabulary | None) -> None:
    """Refuse what one private text cannot judge."""
    if not releases:
        raise UsageError(
            Argument("private_text"),
            ": judges releases, and there is none; give a release or the folder of one.",
        )
    segments = {(release.card.segment or {}).get("name") for release in releases.values()}
    if len(segments) > 1:
        raise UsageError(
            Argument("private_text"),
            ": the releases are of different segments, and each needs the text of its own people;"
            " evaluate one at a time, or by counts of segments.",
        )
    if vocabulary is not None:
        for title, release in releases.items():
            check_vocabulary(release, vocabulary, name=title)


def _count_ngrams(
    rows: Rows,
    releases: Mapping[str, Release],
    vocabulary: Vocabulary | None,
    tokenizer: Tokenizer | None,
) -> dict[str, PrivateNgrams]:
    """Return what people wrote for each release; releases of one vocabulary share the counts."""
    definition = tokenizer or (None if vocabulary is None else vocabulary.tokenizer)
    by_vocabulary: dict[tuple[str, str], PrivateNgrams] = {}
    by_title = {}
    for title, release in releases.items():
        about = release.card.vocabulary
        key = (about["fingerprint"], about["tokenizer"])
        if key not in by_vocabulary:
            cut = Tokenizer.from_name(about["tokenizer"]).with_definition_of(definition)
            by_vocabulary[key] = PrivateNgrams.from_texts(rows, release.ngrams, release.orders, cut)
        by_title[title] = by_vocabulary[key]
    return by_title


def _evaluate_releases(
    releases: Mapping[str, Release],
    counts: PrivateCounts | SegmentedCounts | None,
    private_ngrams: Mapping[str, PrivateNgrams] | None,
    vocabulary: Vocabulary | None,
) -> list[ReleaseEvaluation]:
    """Judge each release by the private text, or else by the private counts."""
    evaluations: list[ReleaseEvaluation] = []
    for title, release in releases.items():
        public = None
        if vocabulary is not None and is_made_with(release, vocabulary):
            public = vocabulary.prior
        if private_ngrams is not None:
            private = private_ngrams[title]
        elif counts is not None and public is not None:
            private = PrivateNgrams(totals_for(counts, release), {})
        else:
            continue
        evaluations += evaluate_release(title, release, private, public)
    return evaluations


# --- Models to compare with ---


def _baselines(
    candidates: Sequence[Candidate],
    counts: PrivateCounts | SegmentedCounts | None,
    vocabulary: Vocabulary | None,
) -> Iterator[tuple[str, LanguageModel]]:
    """Yield models of public text alone and of the private counts, where these are given."""
    if vocabulary is not None:
        yield PUBLIC_ALONE, _public_baseline(candidates, vocabulary)
    if counts is not None:
        yield PRIVATE, _private_baseline(candidates, counts, vocabulary)


def _public_baseline(candidates: Sequence[Candidate], vocabulary: Vocabulary) -> LanguageModel:
    """Return the public model that releases of a vocabulary start from, or one of its counts."""
    for candidate in candidates:
        if candidate.public is not None and candidate.public.vocabulary.is_same_text(vocabulary):
            return candidate.public.mixture
    return LanguageModel.from_counts(
        vocabulary.ngrams, vocabulary.counts + 1.0, vocabulary.tokenizer
    )


def _private_baseline(
    candidates: Sequence[Candidate],
    counts: PrivateCounts | SegmentedCounts,
    vocabulary: Vocabulary | None,
) -> LanguageModel:
    """Return a model of the exact counts, plus one each so that it has the words of the others."""
    if vocabulary is not None:
        ngrams = vocabulary.ngrams
        tokenizer = vocabulary.tokenizer
    else:
        release = next(
            candidate.release for candidate in candidates if candidate.release is not None
        )
        ngrams = release.ngrams
        tokenizer = Tokenizer.from_name(release.card.vocabulary["tokenizer"])
    return LanguageModel.from_counts(ngrams, totals_for(counts) + 1.0, tokenizer)
