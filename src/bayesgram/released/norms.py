"""How much users write, as a release tells it: the noisy histogram that chose the clip norm. Released data only."""

from dataclasses import dataclass

from bayesgram.released.card import Card


@dataclass(frozen=True)
class NormBin:
    """About how many users have a norm from `low` to `high`; noisy, so it can be below 0."""

    low: float
    high: float
    users: float
    clipped: bool


def norm_bins(card: Card) -> list[NormBin]:
    """The bins between the first and the last with users in them; none where the clip norm was given."""
    edges, users = card.details.get("norm_edges", []), card.details.get("noisy_users_by_norm", [])
    if not edges:
        return []
    limit, noise = card.details["clip_norm_used"], 3 * card.details["histogram_multiplier"]
    lows, highs = [0.0, *edges], [*edges, float("inf")]
    bins = [
        NormBin(low, high, number, clipped=low >= limit) for low, high, number in zip(lows, highs, users, strict=True)
    ]
    seen = [at for at, found in enumerate(bins) if found.users > noise]
    return bins[seen[0] : seen[-1] + 1] if seen else []
