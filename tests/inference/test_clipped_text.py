"""Text that clipping removed, given back by its words."""

import numpy as np
import pytest

from bayesgram.inference.clipped_text import removed_counts
from bayesgram.inference.noisy_counts import ClippedMass
from bayesgram.inference.pooling import compute_word_vectors
from helpers.synthetic_measurements import kl_divergence, simulate


@pytest.mark.parametrize(("noise", "better"), [(10.0, 0.4), (3e5, 1.2)])
def test_what_clipping_took_away_is_given_back_by_its_words(noise, better):
    """Half is lost, of words that are like others but for a factor; where noise hides them nothing is worse."""
    public, _, kept = simulate(word_effect=0.0)
    chance = np.random.default_rng(6)
    lost = kept * np.exp(public.per_ngram(chance.normal(0, 0.4, public.word_total)))
    lost *= 1e6 / lost.sum()
    which = np.argsort(-public.per_word(kept), kind="stable")[:400]
    said = public.per_word(lost)[which] + noise * chance.standard_normal(400)
    seen = ClippedMass(which, said, np.full(400, noise), 1e6, 3e4)
    given_back = removed_counts(1e6 * kept, seen, public, compute_word_vectors(public))
    assert given_back.sum() == pytest.approx(1e6)
    written = (1e6 * kept + lost) / 2e6
    assert kl_divergence(written, (1e6 * kept + given_back) / 2e6) < better * kl_divergence(
        written, kept
    )


def test_a_loss_that_noise_hides_is_like_what_was_kept():
    public, _, kept = simulate()
    seen = ClippedMass(np.arange(5), np.full(5, 1e6), np.full(5, 1.0), 10.0, 10.0)
    assert removed_counts(kept, seen, public, compute_word_vectors(public)) == pytest.approx(
        10 * kept / kept.sum()
    )
