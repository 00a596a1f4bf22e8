"""evaluate --text: language models judged by held-out text, as tables and as a picture over ε."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesgram.cli import console, sources
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.audit.families import EvaluatedModel
    from bayesgram.audit.text import Part, Rows, TextQuality
    from bayesgram.released.language_model import LanguageModel
    from bayesgram.text.tokens import Tokenizer

PICTURES = (".svg", ".png")
PLOT = "`plot`"  # where a picture is asked for
UNKNOWN = "unknown"  # the band of words that a model lacks
COLUMNS = ("perplexity", "unknown", "top 1", "top 3", "keys saved")
BY_FREQUENCY = {"perplexity": "Perplexity", "accuracy_1": "First suggestion", "keystrokes_saved": "Keys saved"}
DEFINITIONS = (
    "perplexity: of words and sentence ends, unknown words as one. top 1, top 3: the share of words that were the first"
    " suggestion, or one of three. keys saved: picking one of three as soon as it is right, a keystroke each."
)
OTHER_WORDS = (
    "warning: these models don't know the same words, so that their perplexities don't compare: one that knows fewer"
    " has less to guess. Compare suggestions and keys saved, which count unknown words as wrong."
)


def read(given: Sequence[str], *, text_column: str, skip_bad_rows: bool) -> "dict[str, Rows]":
    """The rows of each text, by name; "" where there is none."""
    named = sources.paths_by_name(given, "text")
    with console.reading("Reading text", then="Scoring text") as bar:
        readers = {
            name: bar.records(paths, text_column=text_column, user_column=None, skip_bad_rows=skip_bad_rows)
            for name, paths in named.items()
        }
        return {name: [batch.text for batch in reader] for name, reader in readers.items()}


def names(given: Sequence[str]) -> dict[str, str]:
    """What each model is called, by its path: NAME of NAME=PATH, or as little of the path as tells it from others."""
    from bayesgram.released.folders import short_names

    found: dict[str, str] = {}
    for one in given:
        name, path = sources.split(one, "model")
        if path in found:
            raise UsageError(f"{one}: is given twice; give each once.")
        found[path] = name
    short = short_names(list(found))
    return {path: name or short[path] for path, name in found.items()}


class Judge:
    """Judges models by one text, one after the other; the first says how frequent words are."""

    def __init__(self, texts: "dict[str, Rows]") -> None:
        self._texts = texts
        self._bands: Any = None
        self._first: LanguageModel | None = None
        self.same_words = True
        self.judged: list[EvaluatedModel] = []

    def open(self, names: Mapping[str, str], cut: "Tokenizer | None") -> None:
        """Judge what is at these paths; `names` are what they are called."""
        from bayesgram.released.language_model import LanguageModel

        for path in names:
            if not _may_be_model(path):
                LanguageModel.open(path)  # says what is wrong, before all others are judged
        for path, name in names.items():
            with console.progress(f"Predicting with {name}") as move:
                self._judge(name, path, LanguageModel.open(path, tokenizer=cut), move)

    def take(self, models: "Iterable[tuple[str, LanguageModel]]") -> None:
        """Judge models that are no files."""
        for name, model in models:
            with console.progress(f"Predicting with {name}") as move:
                self._judge(name, name, model, move)

    def to_json(self) -> dict[str, Any]:
        """What was found, and whether perplexities compare."""
        return {"text": [each.to_json() for each in self.judged], "same_words": self.same_words}

    def _judge(self, name: str, path: str, model: "LanguageModel", move: Any) -> None:  # noqa: ANN401 - moves a bar
        from bayesgram.audit.families import Claim, EvaluatedModel
        from bayesgram.audit.text import frequencies, has_same_words, text_quality

        self._first = self._first or model
        self._bands = self._bands or frequencies(model, self._texts)
        self.same_words = self.same_words and has_same_words(self._first, model)
        quality = text_quality(model, self._texts, bands=self._bands, name=name, on_progress=move)
        self.judged.append(EvaluatedModel(name, path, Claim.of(model.about), quality))


def _may_be_model(path: str) -> bool:
    """Whether there is a file, or a folder with what a release or a model has."""
    from bayesgram.released.model_files import ABOUT
    from bayesgram.released.release import CARD

    return Path(path).is_file() or any((Path(path) / name).is_file() for name in (ABOUT, CARD))


def check_picture(path: Path, *, force: bool, inputs: Sequence[str]) -> None:
    """Refuse what can't be written, before the work."""
    from bayesgram.files.writing import check_writable

    if path.suffix.lower() not in PICTURES:
        raise UsageError(f"plot={path}: a picture is a .svg or a .png; give a name that ends so.")
    check_writable(path, force=force, inputs=inputs, option=PLOT)


def draw(judged: "Sequence[EvaluatedModel]", path: Path, *, same_words: bool, force: bool) -> None:
    """Write the picture over ε."""
    from bayesgram.audit.quality_picture import over_epsilon

    save_picture(lambda: over_epsilon(judged, same_words=same_words), path, force=force)


def save_picture(draw: Callable[[], Any], path: Path, *, force: bool) -> None:
    """Write a chart as the name of its file says."""
    from bayesgram.files.writing import write_file_atomically

    kind = path.suffix.lower()[1:]
    with console.step("Drawing"), write_file_atomically(path, force=force, option=PLOT) as target:
        draw().save(target, format=kind, scale_factor=2 if kind == "png" else 1)


def show(judged: "Sequence[EvaluatedModel]", *, same_words: bool) -> None:
    """The tables: all words, each text, and how frequent the words are."""
    rows = [(each.name, _epsilon(each), *_cells(each.quality)) for each in judged]
    console.print_table("Held-out text", ("model", "ε", *COLUMNS), rows, right=("ε", *COLUMNS))
    if len(judged[0].quality.by_text) > 1:
        _show_texts(judged)
    for measure, title in BY_FREQUENCY.items():
        _show_bands(judged, measure, f"{title}, by how frequent the word is: at least 1 in …")
    console.say(DEFINITIONS)
    if not same_words:
        console.say(OTHER_WORDS)


def _show_texts(judged: "Sequence[EvaluatedModel]") -> None:
    """A table for each text."""
    for at, text in enumerate(judged[0].quality.by_text):
        rows = [(each.name, _epsilon(each), *_cells(each.quality.by_text[at])) for each in judged]
        console.print_table(f"Of it, {text.name}", ("model", "ε", *COLUMNS), rows, right=("ε", *COLUMNS))


def _epsilon(judged: "EvaluatedModel") -> str:
    return console.number(judged.claim.epsilon)


def _cells(part: "Part | TextQuality") -> tuple[str, ...]:
    shares = (part.out_of_vocabulary, part.accuracy_1, part.accuracy_3, part.keystrokes_saved)
    return _cell("perplexity", part.perplexity), *(f"{share:.1%}" for share in shares)


def _cell(measure: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1%}" if measure != "perplexity" else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _show_bands(judged: "Sequence[EvaluatedModel]", measure: str, title: str) -> None:
    """A row a model, a column a band; bands of which nothing is known are left out."""
    bands = {band.name: band for each in judged for band in each.quality.by_frequency}
    values = [{band.name: getattr(band, measure) for band in each.quality.by_frequency} for each in judged]
    shown = [name for name in sorted(bands) if any(own.get(name) is not None for own in values)]
    rarest = max(name for name in shown if name != UNKNOWN)
    often = [_often(bands[name].least_share) if name not in (rarest, UNKNOWN) else name for name in shown]
    columns = ("model", "ε", *("rarer" if name == rarest else name for name in often))
    rows = [
        (each.name, _epsilon(each), *(_cell(measure, own.get(name)) for name in shown))
        for each, own in zip(judged, values, strict=True)
    ]
    console.print_table(title, columns, rows, right=columns[1:])


def _often(share: float | None) -> str:
    """Two digits of one in how many.

    >>> _often(0.0023)
    '430'
    """
    return f"{float(f'{1 / share:.1e}'):,.0f}" if share else UNKNOWN
