"""How much users write, as a release tells it: the noisy histogram that chose the clip norm. Released data only."""

from dataclasses import dataclass

from bayesgram.released.card import Card

# Cards say how noisy a bar is. Those of earlier versions don't: there, a user added this to one bar, in units of what
# all of the user may add; or all of it, and the noise is called histogram_multiplier.
USER_PART_BEFORE = 0.57


@dataclass(frozen=True)
class NormBin:
    """About how many users have a norm from `low` to `high`; noisy, so it can be below 0."""

    low: float
    high: float
    users: float
    clipped: bool


def users_doubt(card: Card) -> float:
    """The standard deviation of the number of users in a bin; 0 where none were counted."""
    if "users_noise" in card.details:
        return float(card.details["users_noise"])
    if "amount_multiplier" in card.details:
        return float(card.details["amount_multiplier"]) / USER_PART_BEFORE
    return float(card.details.get("histogram_multiplier", 0.0))


def norm_bins(card: Card) -> list[NormBin]:
    """The bins between the first and the last with users in them; none where the clip norm was given."""
    edges, users = card.details.get("norm_edges", []), card.details.get("noisy_users_by_norm", [])
    if not edges:
        return []
    limit, noise = card.details["clip_norm_used"], 3 * users_doubt(card)
    lows, highs = [0.0, *edges], [*edges, float("inf")]
    bins = [
        NormBin(low, high, number, clipped=low >= limit) for low, high, number in zip(lows, highs, users, strict=True)
    ]
    seen = [at for at, found in enumerate(bins) if found.users > noise]
    return bins[seen[0] : seen[-1] + 1] if seen else []
