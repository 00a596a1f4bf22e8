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
    from bayesgram.audit.text import evaluate_text as evaluate_text
    from bayesgram.audit.utility import kl_divergence as kl_divergence
    from bayesgram.errors import BayesgramError as BayesgramError
    from bayesgram.errors import UsageError as UsageError
    from bayesgram.inference.reinference import infer as infer
    from bayesgram.mechanisms.base import release as release
    from bayesgram.mechanisms.discovery import discover as discover
    from bayesgram.mechanisms.gaussian import Gaussian as Gaussian
    from bayesgram.mechanisms.k_anonymity import KAnonymity as KAnonymity
    from bayesgram.mechanisms.laplace import Laplace as Laplace
    from bayesgram.mechanisms.laplace import LaplacePublic as LaplacePublic
    from bayesgram.mechanisms.paper import Paper as Paper
    from bayesgram.mechanisms.posterior import Posterior as Posterior
    from bayesgram.mechanisms.tuning import Grid as Grid
    from bayesgram.mechanisms.tuning import TunedPaper as TunedPaper
    from bayesgram.planning.plan import Plan as Plan
    from bayesgram.planning.plan import plan as plan
    from bayesgram.privacy.budget import Budget as Budget
    from bayesgram.privacy.budget import Guarantee as Guarantee
    from bayesgram.privacy.ledger import Ledger as Ledger
    from bayesgram.private.counts import SegmentedCounts as SegmentedCounts
    from bayesgram.private.counts import UserCounts as UserCounts
    from bayesgram.private.counts import count as count
    from bayesgram.private.store import load_counts as load_counts
    from bayesgram.private.store import save_counts as save_counts
    from bayesgram.private.stored import open_counts as open_counts
    from bayesgram.public.discovery import Discovery as Discovery
    from bayesgram.public.public_model import PublicModel as PublicModel
    from bayesgram.public.vocabulary import Vocabulary as Vocabulary
    from bayesgram.released.adapting import Adapted as Adapted
    from bayesgram.released.adapting import adapt as adapt
    from bayesgram.released.adapting import tune as tune
    from bayesgram.released.causal import CausalScorer as CausalScorer
    from bayesgram.released.comparison import Comparison as Comparison
    from bayesgram.released.comparison import compare as compare
    from bayesgram.released.interpolation import interpolate as interpolate
    from bayesgram.released.language_model import LanguageModel as LanguageModel
    from bayesgram.released.release import Release as Release
    from bayesgram.released.scoring import Scorer as Scorer
    from bayesgram.released.segmented import SegmentedRelease as SegmentedRelease
    from bayesgram.text.tokens import Tokenizer as Tokenizer

__version__ = VERSION

# Where the public names live; each is loaded when it is first used, so that `bayesgram --help` loads none of them.
_HOMES = {
    "audit.text": ["evaluate_text"],
    "audit.utility": ["kl_divergence"],
    "errors": ["BayesgramError", "UsageError"],
    "inference.reinference": ["infer"],
    "mechanisms.base": ["release"],
    "mechanisms.discovery": ["discover"],
    "mechanisms.gaussian": ["Gaussian"],
    "mechanisms.k_anonymity": ["KAnonymity"],
    "mechanisms.laplace": ["Laplace", "LaplacePublic"],
    "mechanisms.paper": ["Paper"],
    "mechanisms.posterior": ["Posterior"],
    "mechanisms.tuning": ["Grid", "TunedPaper"],
    "planning.plan": ["Plan", "plan"],
    "privacy.budget": ["Budget", "Guarantee"],
    "privacy.ledger": ["Ledger"],
    "private.counts": ["SegmentedCounts", "UserCounts", "count"],
    "private.store": ["load_counts", "save_counts"],
    "private.stored": ["open_counts"],
    "public.discovery": ["Discovery"],
    "public.public_model": ["PublicModel"],
    "public.vocabulary": ["Vocabulary"],
    "released.adapting": ["Adapted", "adapt", "tune"],
    "released.causal": ["CausalScorer"],
    "released.comparison": ["Comparison", "compare"],
    "released.interpolation": ["interpolate"],
    "released.language_model": ["LanguageModel"],
    "released.release": ["Release"],
    "released.scoring": ["Scorer"],
    "released.segmented": ["SegmentedRelease"],
    "text.tokens": ["Tokenizer"],
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"bayesgram.{home}"), name)
    raise AttributeError(f"module 'bayesgram' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["__version__", *__all__])
