"""Releases to report on, and a reader of the page."""

import html.parser
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bayesgram.charts import Series
from bayesgram.mechanisms.laplace import Laplace
from bayesgram.mechanisms.posterior import Posterior
from bayesgram.paper.k_anonymity import KAnonymity
from bayesgram.privacy.budget import Budget
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.reports.report import AuditSummary, PrivatePart, Score
from bayesgram.reports.views import ReleaseView
from bayesgram.text.tokenizer import Tokenizer
from helpers import reference_paper

HOSTILE = [
    "<script>document.title='stolen'</script>",
    '"><img/src=x/onerror=alert(1)>',
    "a\u202eb",
    "&amp;'",
    "</svg>",
]


def make_release(mechanism=None, *, epsilon=1.0, ngrams=None, seed=None):
    rng = np.random.default_rng(3)
    size = len(ngrams) if ngrams else 40
    counts = reference_paper.make_user_counts(rng.poisson(2.0 / (1 + np.arange(size)), (400, size)))
    vocabulary = reference_paper.make_vocabulary(1000 // (1 + np.arange(size)[::-1]))
    if ngrams:
        words = pa.array(ngrams, pa.large_string())
        order = max(ngram.count(" ") for ngram in ngrams) + 1
        vocabulary = Vocabulary(words, vocabulary.counts, order, Tokenizer("whitespace"))
        counts = replace(counts, vocabulary_fingerprint=vocabulary.fingerprint)
    mechanism = mechanism or Posterior()
    budget = None if isinstance(mechanism, KAnonymity) else Budget(epsilon, 1e-6)
    budget = Budget(epsilon) if isinstance(mechanism, Laplace) else budget
    return mechanism.release(counts, vocabulary, budget, seed=seed), vocabulary


def make_view(*arguments, name="out", public=True, **options):
    release, vocabulary = make_release(*arguments, **options)
    return ReleaseView(name, release, vocabulary.prior if public else None)


class ParsedPage(html.parser.HTMLParser):
    """Fails on tags that do not match; collects tags, attributes and words."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


WARNING = "from private data"


def make_private_part():
    attacks = AuditSummary(
        "audit",
        "paper",
        "EMPIRICAL",
        1.0,
        1e-6,
        "NOT private",
        True,
        [],
        [Series([0, 1], [1, 0], "x", "red")],
    )
    scores = [Score("public text alone", "no private data", "PROVED", 0.0, 0.0, 1, 1.2345)]
    scores += [Score(f"out-{e}", "posterior", "PROVED", e, 1e-6, 1, 0.9876 / e) for e in (1.0, 2.0)]
    scores += [Score("sparse", "laplace", "PROVED", 1.0, 0.0, 1, None)]
    return PrivatePart(WARNING, scores, [attacks])
