"""N-grams of people's text under user-level differential privacy, with public text as the prior.

The nouns and verbs of the command line, from Python:

>>> import bayesgram as bg
>>> import pyarrow as pa
>>> public = pa.table({"text": ["the red fish swims", "the blue fish sleeps"]})
>>> private = pa.table({"user": ["ann", "bob"], "text": ["The red fish!", "a red fish"]})
>>> vocabulary = bg.Vocabulary.from_public(public, order=2, size=100)
>>> counts = bg.count(private, vocabulary)
>>> release = bg.release(counts, vocabulary, epsilon=1)
>>> print(release.card.claim)
ε = 1, δ = 1e-07 (PROVED)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bayesgram.version import VERSION

if TYPE_CHECKING:
    from bayesgram import lm as lm
    from bayesgram import paper as paper
    from bayesgram.audit.evaluate import Evaluation as Evaluation
    from bayesgram.audit.evaluate import evaluate as evaluate
    from bayesgram.audit.evaluation import kl_divergence as kl_divergence
    from bayesgram.audit.text_evaluation import evaluate_text as evaluate_text
    from bayesgram.comparison.comparison import Comparison as Comparison
    from bayesgram.comparison.comparison import compare as compare
    from bayesgram.errors import BayesgramError as BayesgramError
    from bayesgram.errors import UsageError as UsageError
    from bayesgram.inference.reinfer import infer as infer
    from bayesgram.mechanisms.discovery import discover as discover
    from bayesgram.mechanisms.gaussian import Gaussian as Gaussian
    from bayesgram.mechanisms.laplace import Laplace as Laplace
    from bayesgram.mechanisms.laplace import LaplacePublic as LaplacePublic
    from bayesgram.mechanisms.posterior import Posterior as Posterior
    from bayesgram.mechanisms.publish import release as release
    from bayesgram.mechanisms.series import Series as Series
    from bayesgram.planning.plan import Plan as Plan
    from bayesgram.planning.plan import plan as plan
    from bayesgram.planning.series_plan import SeriesPlan as SeriesPlan
    from bayesgram.planning.series_plan import plan_series as plan_series
    from bayesgram.privacy.budget import Budget as Budget
    from bayesgram.privacy.budget import Guarantee as Guarantee
    from bayesgram.privacy.ledger import Ledger as Ledger
    from bayesgram.private.counts import SegmentedCounts as SegmentedCounts
    from bayesgram.private.counts import UserCounts as UserCounts
    from bayesgram.private.counts import count as count
    from bayesgram.private.counts_io import load_counts as load_counts
    from bayesgram.private.counts_io import save_counts as save_counts
    from bayesgram.private.counts_on_disk import open_counts as open_counts
    from bayesgram.private.split import split as split
    from bayesgram.public.discovered_ngrams import Discovery as Discovery
    from bayesgram.public.discovered_ngrams import review as review
    from bayesgram.public.public_model import PublicModel as PublicModel
    from bayesgram.public.release_model import open_model as open_model
    from bayesgram.public.vocabulary import Vocabulary as Vocabulary
    from bayesgram.releases.release import Release as Release
    from bayesgram.releases.segmented import SegmentedRelease as SegmentedRelease
    from bayesgram.reports.page import report as report
    from bayesgram.text.blocklist import Blocklist as Blocklist
    from bayesgram.text.tokenizer import Tokenizer as Tokenizer

__version__ = VERSION

# Where the public names live. Each is loaded when it is first used, so that `bayesgram --help`
# loads none of them.
_HOMES = {
    "audit.evaluate": ["Evaluation", "evaluate"],
    "audit.evaluation": ["kl_divergence"],
    "audit.text_evaluation": ["evaluate_text"],
    "comparison.comparison": ["Comparison", "compare"],
    "errors": ["BayesgramError", "UsageError"],
    "inference.reinfer": ["infer"],
    "mechanisms.publish": ["release"],
    "mechanisms.series": ["Series"],
    "mechanisms.discovery": ["discover"],
    "mechanisms.gaussian": ["Gaussian"],
    "mechanisms.laplace": ["Laplace", "LaplacePublic"],
    "mechanisms.posterior": ["Posterior"],
    "planning.plan": ["Plan", "plan"],
    "planning.series_plan": ["SeriesPlan", "plan_series"],
    "privacy.budget": ["Budget", "Guarantee"],
    "privacy.ledger": ["Ledger"],
    "private.counts": ["SegmentedCounts", "UserCounts", "count"],
    "private.counts_io": ["load_counts", "save_counts"],
    "private.counts_on_disk": ["open_counts"],
    "private.split": ["split"],
    "public.discovered_ngrams": ["Discovery", "review"],
    "public.public_model": ["PublicModel"],
    "public.release_model": ["open_model"],
    "public.vocabulary": ["Vocabulary"],
    "releases.release": ["Release"],
    "releases.segmented": ["SegmentedRelease"],
    "reports.page": ["report"],
    "text.blocklist": ["Blocklist"],
    "text.tokenizer": ["Tokenizer"],
}
# Language models (bayesgram.lm.LanguageModel), and the paper's mechanisms, for comparison
# (bayesgram.paper.Paper).
_PACKAGES = ("lm", "paper")
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name in _PACKAGES:
        return import_module(f"bayesgram.{name}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"bayesgram.{home}"), name)
    raise AttributeError(f"module 'bayesgram' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["__version__", *__all__, *_PACKAGES])
