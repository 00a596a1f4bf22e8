"""The commands that are made to fail: their inputs, their output, and what is there before."""

import shutil
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = ("the", "red", "blue", "fish", "swam", "home", "again", "one", "two", "slowly")
LITTLE_MEMORY = {  # so that little text is enough to spill things to disk
    "bayesgram.private.streaming.MIN_PENDING": 2000,
    "bayesgram.private.streaming.BYTES_PER_OCCURRENCE": 10**9,
}
TWO_STEPS = {"bayesgram.system.RENAME_EXCHANGE": 1 << 20}  # a system that can't swap two folders
LEDGER = "app.ledger"
SERIES = "weekly.series"
DISCOVERY_LEDGER = "found.ledger"
DISCOVERY_SERIES = "found.series"


@dataclass(frozen=True)
class Scenario:
    """One command, and the folder that it runs in."""

    name: str
    arguments: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    output: str | None = None
    replaced: str | None = (
        None  # which input is there under the output's name, for --force to replace
    )
    is_repeatable: bool = True  # whether the output is the same, byte for byte, every time
    settings: dict = field(default_factory=dict)  # module attributes to set, by dotted name

    @property
    def charges(self):
        """Whether the command spends budget of a ledger."""
        return LEDGER in self.inputs and "release" in self.arguments and not self.is_in_series

    @property
    def ledger(self):
        """The ledger among the inputs; None if there is none."""
        return next((name for name in self.inputs if name.endswith(".ledger")), None)

    @property
    def series(self):
        """The series that the command makes a release or a discovery of; None if there is none."""
        return next((name for name in self.inputs if name.endswith(".series")), None)

    @property
    def is_in_series(self):
        """Whether the command makes a release or a discovery of a series."""
        return self.series is not None

    @property
    def kind(self):
        """What the command makes of a series: "release" or "discovery"."""
        return "discovery" if "discover" in self.arguments else "release"

    def fill(self, template, folder):
        """Copy the inputs, and what is to be replaced, from the template into a folder."""
        for name in self.inputs:
            _copy(template / name, folder / name)
        if self.replaced:
            _copy(template / self.replaced, folder / self.output)


def _copy(source, target):
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


COUNT = ("count", "messages.parquet", "--vocab", "vocab.parquet", "-o", "made")
RELEASE = (
    "release",
    "counts",
    "--vocab",
    "vocab.parquet",
    "--epsilon",
    "0.5",
    "--ledger",
    LEDGER,
    "-o",
    "made",
)
RELEASE_OF_SERIES = (
    "release",
    "counts",
    "--vocab",
    "vocab.parquet",
    "--series",
    SERIES,
    "-o",
    "made",
)
DISCOVERY_OF_SERIES = (
    "discover",
    "second.parquet",
    "--vocab",
    "vocab.parquet",
    "--open",
    "--series",
    DISCOVERY_SERIES,
    "-o",
    "made",
)
VOCAB = ("vocab", "public.txt", "--order", "2", "--size", "40", "-o", "made.parquet")
VOCAB_ALONE = (*VOCAB, "--no-model")
FORCE = ("--force",)
RELEASE_INPUTS = ("counts", "vocab.parquet", LEDGER)

SCENARIOS = (
    Scenario("vocab", VOCAB_ALONE, ("public.txt",), "made.parquet"),
    Scenario(
        "vocab --force",
        VOCAB_ALONE + FORCE,
        ("public.txt",),
        "made.parquet",
        replaced="old.parquet",
    ),
    Scenario(
        "vocab --model", (*VOCAB, "--model", "made"), ("public.txt",), "made"
    ),  # beside made.parquet
    Scenario("count", COUNT, ("messages.parquet", "vocab.parquet"), "made", settings=LITTLE_MEMORY),
    Scenario(
        "count --force",
        COUNT + FORCE,
        ("messages.parquet", "vocab.parquet"),
        "made",
        replaced="old-counts",
    ),
    Scenario(
        "count --force, 2 steps",
        COUNT + FORCE,
        ("messages.parquet", "vocab.parquet"),
        "made",
        replaced="old-counts",
        settings=TWO_STEPS,
    ),
    Scenario("release", RELEASE, RELEASE_INPUTS, "made", is_repeatable=False),
    Scenario(
        "release --force",
        RELEASE + FORCE,
        RELEASE_INPUTS,
        "made",
        replaced="old-release",
        is_repeatable=False,
    ),
    Scenario(
        "release --series",
        RELEASE_OF_SERIES,
        (*RELEASE_INPUTS, SERIES),
        "made",
        is_repeatable=False,
    ),
    Scenario(
        "discover --series",
        DISCOVERY_OF_SERIES,
        ("second.parquet", "vocab.parquet", DISCOVERY_LEDGER, DISCOVERY_SERIES),
        "made",
        is_repeatable=False,
    ),
    Scenario(
        "discover --series --force",
        DISCOVERY_OF_SERIES + FORCE,
        ("second.parquet", "vocab.parquet", DISCOVERY_LEDGER, DISCOVERY_SERIES, "found-1"),
        "made",
        replaced="found-1",
        is_repeatable=False,
    ),
    Scenario(
        "ledger create",
        (
            "ledger",
            "create",
            "--population",
            "p",
            "--epsilon",
            "5",
            "--delta",
            "1e-6",
            "made.ledger",
        ),
        output="made.ledger",
        is_repeatable=False,
    ),
    Scenario("ledger show", ("ledger", "show", LEDGER), (LEDGER,)),
    Scenario(
        "export arpa",
        ("export", "out", "--format", "arpa", "-o", "made.arpa.gz"),
        ("out",),
        "made.arpa.gz",
    ),
    Scenario(
        "export tsv", ("export", "out", "--format", "tsv", "-o", "made.tsv"), ("out",), "made.tsv"
    ),
    Scenario(
        "export model", ("export", "out", "--format", "model", "-o", "made"), ("out",), "made"
    ),
    Scenario(
        "export model --force",
        ("export", "out", "--format", "model", "-o", "made", "--force"),
        ("out",),
        "made",
        replaced="old-model",
    ),
    Scenario(
        "report",
        ("report", "out", "--vocab", "vocab.parquet", "-o", "made.html"),
        ("out", "vocab.parquet"),
        "made.html",
    ),
)


def make_inputs(folder, run):
    """Make all that the scenarios need in a folder, by the commands themselves (`run`)."""
    lines = [" ".join(WORDS[(row * step) % 10] for step in range(1, 9)) for row in range(200)]
    (folder / "public.txt").write_text("\n".join(lines))
    users = [f"user-{row % 60}" for row in range(600)]
    pq.write_table(
        pa.table({"user": users, "text": [lines[row % 200] for row in range(600)]}),
        folder / "messages.parquet",
    )
    for name, phrases in (("first", "red zog. early fish"), ("second", "red zog. blue blip")):
        rows = [(f"{name}-{row}" if row % 2 else f"user-{row}", phrases) for row in range(800)]
        columns = dict(zip(("user", "text"), map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    for arguments in (
        (
            "vocab",
            "public.txt",
            "--order",
            "2",
            "--size",
            "40",
            "-o",
            "vocab.parquet",
            "--no-model",
        ),
        ("vocab", "public.txt", "--order", "2", "--size", "7", "-o", "old.parquet", "--no-model"),
        (
            "vocab",
            "public.txt",
            "--order",
            "1",
            "--size",
            "7",
            "-o",
            "warm.parquet",
            "--model",
            "warm",
        ),
        ("count", "messages.parquet", "--vocab", "vocab.parquet", "-o", "counts"),
        ("count", "messages.parquet", "--vocab", "old.parquet", "-o", "old-counts"),
        ("ledger", "create", "--population", "p", "--epsilon", "5", "--delta", "1e-6", LEDGER),
        ("ledger", "show", LEDGER),
        (
            "release",
            "counts",
            "--vocab",
            "vocab.parquet",
            "--epsilon",
            "0.1",
            "--ledger",
            LEDGER,
            "-o",
            "out",
        ),
        (
            "series",
            "create",
            SERIES,
            "--ledger",
            LEDGER,
            "--epsilon",
            "0.5",
            "--delta",
            "1e-7",
            "--releases",
            "9",
            "--full-releases",
            "3",
        ),
        ("release", "counts", "--vocab", "vocab.parquet", "--series", SERIES, "-o", "week-0"),
        ("release", "counts", "--vocab", "vocab.parquet", "--epsilon", "0.2", "-o", "old-release"),
        ("export", "old-release", "--format", "model", "-o", "old-model"),
        (
            "ledger",
            "create",
            "--population",
            "q",
            "--epsilon",
            "5",
            "--delta",
            "1e-6",
            DISCOVERY_LEDGER,
        ),
        (
            "series",
            "create",
            DISCOVERY_SERIES,
            "--ledger",
            DISCOVERY_LEDGER,
            "--epsilon",
            "5",
            "--delta",
            "1e-6",
            "--releases",
            "9",
            "--full-releases",
            "3",
            "--discovery-share",
            "0.9",
        ),
        (
            "discover",
            "first.parquet",
            "--vocab",
            "vocab.parquet",
            "--open",
            "--series",
            DISCOVERY_SERIES,
            "-o",
            "found-1",
        ),
        ("export", "out", "--format", "arpa", "-o", "warm.arpa.gz"),
        ("export", "out", "--format", "tsv", "-o", "warm.tsv"),
        ("report", "out", "--vocab", "vocab.parquet", "-o", "warm.html"),
    ):
        run(arguments)
