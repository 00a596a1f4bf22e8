"""N-gram language models: estimated, pruned, stored, searched, interpolated, adapted and exported.

The modules are stages. Counts become a model in `estimate` (a release) or in `ngram_counts`,
`kneser_ney` and `pruning` (public text). A model is a `trie`, whose arrays are in `packed` and
whose inner loops are in `search`; `quantisation` makes it smaller, and `files` and `arpa` store it.
`language_model` is what users hold. `interpolation` mixes models, `scoring`, `neural` and
`adaptation` adapt other people's models by a release, and `export` writes a release for other
programs.

The names below are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesgram.lm.adaptation import AdaptedModel as AdaptedModel
    from bayesgram.lm.adaptation import WordLifts as WordLifts
    from bayesgram.lm.adaptation import adapt as adapt
    from bayesgram.lm.adaptation import fit_adaptation as fit_adaptation
    from bayesgram.lm.arpa import read_arpa as read_arpa
    from bayesgram.lm.arpa import write_arpa as write_arpa
    from bayesgram.lm.interpolation import fit_mixture_weights as fit_mixture_weights
    from bayesgram.lm.interpolation import interpolate as interpolate
    from bayesgram.lm.language_model import CaseCounter as CaseCounter
    from bayesgram.lm.language_model import LanguageModel as LanguageModel
    from bayesgram.lm.language_model import Prediction as Prediction
    from bayesgram.lm.language_model import WordScore as WordScore
    from bayesgram.lm.neural import CausalScorer as CausalScorer
    from bayesgram.lm.scoring import ModelScorer as ModelScorer
    from bayesgram.lm.scoring import Scorer as Scorer

_MODULES = {
    "adaptation": ["AdaptedModel", "WordLifts", "adapt", "fit_adaptation"],
    "arpa": ["read_arpa", "write_arpa"],
    "interpolation": ["fit_mixture_weights", "interpolate"],
    "language_model": ["CaseCounter", "LanguageModel", "Prediction", "WordScore"],
    "neural": ["CausalScorer"],
    "scoring": ["ModelScorer", "Scorer"],
}
__all__ = [name for names in _MODULES.values() for name in names]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"bayesgram.lm.{module}"), name)
    raise AttributeError(f"module 'bayesgram.lm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
