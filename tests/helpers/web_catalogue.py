"""A small shelf for the page's tests: three releases of one vocabulary, with n-grams that nobody
should trust.
"""

import asyncio
from contextlib import nullcontext
from dataclasses import replace

import httpx
import numpy as np
import pyarrow as pa

from bayesgram.privacy.budget import Guarantee
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.releases.card import Card
from bayesgram.releases.measurements import NGRAM, TOTAL, WORD, MeasurementBlock, Measurements
from bayesgram.releases.release import Release
from bayesgram.text.tokenizer import Tokenizer
from bayesgram.web.api import build
from bayesgram.web.catalogue import Builder
from bayesgram.web.guard import AccessPolicy

SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img/src=x/onerror=alert(1)>"
BIDI = "ab\u202ecd"
WORDS = [
    "thank",
    "you",
    "very",
    "much",
    "so",
    "for",
    "all",
    SCRIPT,
    IMAGE,
    BIDI,
    "café",
    "'quoted'",
]


def make_vocabulary():
    """Words, pairs and triples; public text prefers the first ones."""
    pairs = [f"{a} {b}" for a in WORDS[:6] for b in WORDS if a != b]
    triples = [f"thank you {word}" for word in WORDS[2:]] + [
        f"{pair} all" for pair in pairs if not pair.endswith("all")
    ]
    ngrams = [*WORDS, *pairs, *dict.fromkeys(triples)]
    counts = 5 + 1000 // np.concatenate(
        [np.arange(1, len(part) + 1) for part in (WORDS, pairs, dict.fromkeys(triples))]
    )
    return Vocabulary(pa.array(ngrams, pa.large_string()), counts, 3, Tokenizer())


def make_release(
    words, epsilon, *, sure=0.05, mechanism="posterior", guarantee=Guarantee.PROVED, name="made"
):
    """Public text, shaken; hostile n-grams are lifted."""
    shaken = words.prior * np.exp(
        np.random.default_rng(int(10 * (epsilon or 0))).normal(0, 0.3, len(words))
    )
    hostile = np.array(["<" in ngram for ngram in words.ngrams.to_pylist()])
    theta = np.where(hostile, 20 * shaken, shaken)
    orders = np.array([ngram.count(" ") for ngram in words.ngrams.to_pylist()])
    theta /= np.bincount(orders, theta)[orders]
    measured = {
        "clip_norm_used": 2.0,
        "noise_multiplier": 5.0,
        "amount_multiplier": 5.0,
        "users_noise": 5.0 / 0.57,
        "norm_edges": [1.0, 2.0, 4.0],
        "noisy_users_by_norm": [100.0, 900.5, 300.0, -2.0],
    }
    details = {
        "expected_counts": {"1": 900.0, "2": 600.0, "3": 300.0},
        "by_order": {order: dict(measured) for order in ("1", "2", "3")},
    }
    about = {"size": len(words), "order": 3, "orders": [1, 2, 3], "tokenizer": words.tokenizer.name}
    about |= {"fingerprint": words.fingerprint, "prior_fingerprint": words.prior_fingerprint}
    card = Card(
        mechanism,
        guarantee,
        "as tested",
        epsilon,
        1e-7 if epsilon else None,
        {"clip_norm": None},
        details,
        about,
        False,
    )
    return Release(words.ngrams, theta, card, None if sure is None else sure / epsilon * theta)


def with_measurements(made, seed):
    """The same release with noisy counts of 300,000 n-grams of each order and of their words."""
    rng = np.random.default_rng(seed)
    sigma = 5.0
    texts = np.array(made.ngrams.to_pylist(), object)
    orders = np.array([text.count(" ") + 1 for text in texts])
    blocks = []

    def add(kind, order, names, counts):
        noise = np.full(len(names), 2 * sigma)
        noisy = counts + noise * rng.standard_normal(len(names))
        blocks.append(
            MeasurementBlock(kind, order, pa.array(names, pa.large_string()), noisy, noise)
        )

    for order in (1, 2, 3):
        rows = orders == order
        add(NGRAM, order, texts[rows].tolist(), 3e5 * made.probabilities[rows])
        add(TOTAL, order, [""], np.array([3e5]))
    words = {}
    for text, share in zip(texts[orders == 3], made.probabilities[orders == 3], strict=True):
        for word in text.split():
            words[word] = words.get(word, 0.0) + 3e5 * share
    add(WORD, 3, list(words), np.array(list(words.values())))
    measurements = Measurements.from_blocks(blocks)
    card = replace(made.card, measured=measurements.card_details)
    return replace(made, card=card, measurements=measurements)


SOURCES = {"wiki": (0.06, 0.004), "reviews": (0.6, 0.007), "talk": (0.34, 0.007)}


def make_weights(sources):
    """As a card has them."""
    return {
        name: {"weight": weight, "deviation": deviation}
        for name, (weight, deviation) in sources.items()
    }


def add_source_weights(made, by_order):
    """The same release, with learnt weights of sources."""
    details = {
        **made.card.details,
        "source_weights": {order: make_weights(found) for order, found in by_order.items()},
    }
    return replace(made, card=replace(made.card, details=details))


def make_releases_with_sources(words):
    """One that knows its sources, one that does not, and one with a single source."""
    unsure = {"wiki": (0.5, 0.35), "talk": (0.5, 0.35)}
    by_order = {
        "1": {"talk": (0.5, 0.003), "reviews": (0.48, 0.003), "wiki": (0.02, 0.001)},
        "3": SOURCES,
    }
    known, hidden = make_release(words, 1.0), make_release(words, 0.1)
    named = [
        ("known", add_source_weights(known, by_order)),
        ("hidden", add_source_weights(hidden, {"3": unsure})),
    ]
    return [*named, ("one", known)]


def make_releases(words):
    """Two that say how sure they are and keep their measurements, and one that doesn't."""
    unsure = make_release(words, None, sure=None, mechanism="k-anonymity", guarantee=Guarantee.NONE)
    return [
        ("eps-0.1", with_measurements(make_release(words, 0.1), 1)),
        ("eps-1", with_measurements(make_release(words, 1.0), 2)),
        (f"k {SCRIPT}", unsure),
    ]


def make_weak_releases(words):
    """Promises that hold and protect little, and a usual one."""
    return [
        ("eps-5", make_release(words, 5.0)),
        ("eps-100", make_release(words, 100.0)),
        ("eps-1", make_release(words, 1.0)),
    ]


def make_many_releases(words):
    """Fourteen, with names of all lengths, at two ε; two of them promise nothing."""
    kinds = [
        "posterior",
        "gaussian",
        "laplace-max_total-10",
        "laplace-max_total-100",
        "laplace-public-max_total-10",
    ]
    made = [
        (
            f"{kind}-epsilon-{epsilon:g}",
            make_release(
                words, epsilon, sure=0.05 if kind == "posterior" else None, mechanism=kind
            ),
        )
        for epsilon in (0.1, 1.0)
        for kind in kinds
    ]
    for epsilon in (0.1, 1.0):
        paper = make_release(
            words, epsilon, sure=None, mechanism="paper", guarantee=Guarantee.EMPIRICAL
        )
        made.append((f"paper-{epsilon:g}", paper))
    none = {"sure": None, "mechanism": "k-anonymity", "guarantee": Guarantee.NONE}
    return [
        *made,
        ("made-none", make_release(words, 0.1, **none)),
        ("k", make_release(words, 1.0, **none)),
    ]


def make_catalogue(*, public=True, made=make_releases, words=None):
    """All of it in memory; `words` is another vocabulary."""
    words = make_vocabulary() if words is None else words
    return Builder(lambda _: nullcontext(), words if public else None).build(made(words))


def make_client(*, public=True, policy=None, rates=None, made=make_releases, words=None):
    """A function that asks the page without a network."""
    guard = build(
        make_catalogue(public=public, made=made, words=words), policy or AccessPolicy(), rates
    )

    def ask(
        path, body=None, *, method=None, headers=None, content=None, base="http://127.0.0.1:8765"
    ):
        async def once():
            way = httpx.ASGITransport(guard, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=way, base_url=base) as client:
                verb = method or ("GET" if body is None and content is None else "POST")
                return await client.request(verb, path, json=body, headers=headers, content=content)

        return asyncio.run(once())

    return ask


DISCOVERY = {"epsilon": 1.0, "delta": 1e-7, "guarantee": "PROVED", "ledger": None}


def make_grown_releases(words):
    """One whose vocabulary has grown by a discovery, and one of public text alone."""
    made = make_release(words, 1.0)
    found = np.array(
        [ngram in {"so", f"thank {SCRIPT}", "thank you very"} for ngram in words.ngrams.to_pylist()]
    )
    about = {**made.card.vocabulary, "discovered": int(found.sum()), "discoveries": [DISCOVERY]}
    grown = replace(made, discovered_mask=found, card=replace(made.card, vocabulary=about))
    return [("grown", grown), ("plain", made)]
