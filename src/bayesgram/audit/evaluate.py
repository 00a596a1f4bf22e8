"""Judge releases and language models by private counts and text: `bayesgram evaluate`, from Python.

In:  releases or models, and private counts, the private text, or held-out text.
Out: an `Evaluation`. It is computed without noise, for the keeper of the data only.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bayesgram.arguments import check_arguments
from bayesgram.audit.evaluation import DISCLOSURE, kl_by_order
from bayesgram.audit.ngram_evaluation import PrivateNgrams, ReleaseEvaluation, evaluate_release
from bayesgram.audit.text_evaluation import TextQuality, evaluate_text
from bayesgram.errors import UsageError
from bayesgram.io import read_records
from bayesgram.lm.language_model import LanguageModel
from bayesgram.notebook import html
from bayesgram.private.counts import PrivateCounts, SegmentedCounts
from bayesgram.public.release_model import open_model
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases import CARD_FILE
from bayesgram.releases.release import Release, is_made_with
from bayesgram.reports.report import Score
from bayesgram.text.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class Evaluation:
    """How good releases or models are. Private: computed from private data without noise.

    Attributes:
        divergences: With `counts`: the KL divergence of public text and of every release, for each
            order.
        quality: With `private_text`, or with `counts` and a vocabulary: coverage and the error that
            is removed, for each release and order.
        texts: With `text`: the quality of each model on held-out text, by its name.
    """

    divergences: tuple[Score, ...] = ()
    quality: tuple[ReleaseEvaluation, ...] = ()
    texts: Mapping[str, TextQuality] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with the warning that they are private."""
        return {
            "warning": DISCLOSURE,
            "divergences": [asdict(score) for score in self.divergences],
            "quality": [quality.to_json() for quality in self.quality],
            "texts": {name: asdict(quality) for name, quality in (self.texts or {}).items()},
        }

    def __repr__(self) -> str:
        names = dict.fromkeys(
            [
                *(score.release for score in self.divergences),
                *(quality.release for quality in self.quality),
                *(self.texts or {}),
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
        for model, result in (self.texts or {}).items():
            rows.append((model, "perplexity", f"{result.perplexity:.1f}"))
            rows.append((model, "first suggestion right", f"{result.accuracy_1:.1%}"))
            rows.append((model, "keystrokes saved", f"{result.keystrokes_saved:.1%}"))
        return html("Evaluation", [("Private", DISCLOSURE)], ("what", "measure", "value"), rows)


@check_arguments
def evaluate(
    models: Any,  # noqa: ANN401 - one or several, in memory or as paths
    *,
    counts: PrivateCounts | SegmentedCounts | None = None,
    private_text: Any = None,  # noqa: ANN401 - paths or tables, see bayesgram.io
    text: Any = None,  # noqa: ANN401 - paths or tables, see bayesgram.io; or several with names
    vocabulary: Vocabulary | None = None,
    text_column: str = "text",
) -> Evaluation:
    """Judge releases and language models. The result is for the keeper of the data only.

    Args:
        models: A release or its folder; or several by name: {"ε = 1": release, "old": "out-old"}.
            With `text` also language models, model folders and ARPA files. The language model of a
            release folder starts from its public model (`open_model`).
        counts: The private counts that the releases were made from.
        private_text: The private text that the releases were made from.
        text: Held-out text, of people whom no release has seen (`split`).
        vocabulary: The vocabulary of the releases: public text is judged, too.
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
    named = dict(models) if isinstance(models, Mapping) else {"release": models}
    releases = [
        (name, release)
        for name, model in named.items()
        if (release := _as_release(name, model, optional=text is not None)) is not None
    ]
    divergences: list[Score] = []
    if counts is not None:
        divergences = kl_by_order(counts, *_check_releases(releases, counts, vocabulary))
    quality: list[ReleaseEvaluation] = []
    if private_text is not None:
        quality = _judge_by_text(releases, private_text, vocabulary, text_column)
    texts = None
    if text is not None:
        language_models = {name: _as_language_model(model) for name, model in named.items()}
        texts = evaluate_text(language_models, text, text_column=text_column)
    return Evaluation(tuple(divergences), tuple(quality), texts)


def _as_release(name: str, model: object, *, optional: bool) -> Release | None:
    if isinstance(model, Release):
        return model
    if isinstance(model, str | Path) and (Path(model) / CARD_FILE).is_file():
        return Release.load(model)
    if optional:
        return None
    raise UsageError(
        f"models: {name!r} is no release; give a release or the folder of one. Language models are"
        " judged by `text`."
    )


def _check_releases(
    releases: list[tuple[str, Release]],
    counts: PrivateCounts | SegmentedCounts,
    vocabulary: Vocabulary | None,
) -> tuple[list[tuple[str, Release]], Any]:
    """Return the releases of the counts, and the public distribution where it is known."""
    if not releases:
        raise UsageError("counts: judge releases, and there is none; give one, or leave them out.")
    for _, release in releases:
        counts.check_vocabulary(len(release.ngrams), release.card.vocabulary["fingerprint"])
    return releases, None if vocabulary is None else vocabulary.prior


def _judge_by_text(
    releases: list[tuple[str, Release]],
    texts: Any,  # noqa: ANN401 - paths or tables
    vocabulary: Vocabulary | None,
    text_column: str,
) -> list[ReleaseEvaluation]:
    """Judge each release by the private text."""
    if not releases:
        raise UsageError("private_text: judges releases, and there is none; give one.")
    records = read_records(texts, text_column=text_column, user_column=None)
    batches = [batch.text for batch in records]
    evaluations: list[ReleaseEvaluation] = []
    for name, release in releases:
        tokenizer = Tokenizer.from_name(release.card.vocabulary["tokenizer"])
        tokenizer = tokenizer.with_definition_of(vocabulary.tokenizer if vocabulary else None)
        private = PrivateNgrams.from_texts(batches, release.ngrams, release.orders, tokenizer)
        is_own = vocabulary is not None and is_made_with(release, vocabulary)
        public = vocabulary.prior if vocabulary is not None and is_own else None
        evaluations += evaluate_release(name, release, private, public)
    return evaluations


def _as_language_model(model: object) -> LanguageModel:
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, Release):
        return LanguageModel.from_release(model)
    if isinstance(model, str | Path):
        return open_model(model)
    raise UsageError(
        f"models: {type(model).__name__} is no model; give a release, a language model, or the path"
        " of one."
    )
