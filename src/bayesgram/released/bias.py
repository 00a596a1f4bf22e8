"""A biasing list for recognisers: words, and how much likelier people are to write them than public text is.

In:  `WordLifts`.   Out: a file, a line each: the word, a tab, log θ/π (natural). The words that matter most come first:
those with the largest part in how far θ and π are apart. <s> and </s> are no words. Does not scale: a recogniser has a
weight of its own for such a list, which multiplies the numbers; 0.85 is a good one (see `adapting`).
"""

from pathlib import Path

import numpy as np

from bayesgram.errors import BayesgramError, whole_number
from bayesgram.files.writing import write_file_atomically
from bayesgram.released.adapting import WordLifts
from bayesgram.text.ngrams import END, START

MOST = 2**31 - 1


def bias_list(lifts: WordLifts, most: int | None = None) -> list[tuple[str, float]]:
    """The words and their log-ratios, the most useful first, of equal ones the first in the release."""
    size = MOST if most is None else whole_number("prune", most, 1, MOST, "the number of words")
    order = np.argsort(-lifts.usefulness, kind="stable").tolist()
    rows = [(lifts.words[at], float(lifts.logs[at])) for at in order if lifts.words[at] not in {START, END}]
    if not rows:
        raise BayesgramError("the release has no words beside the ends of sentences; release a vocabulary with some.")
    return rows[:size]


def write_bias(lifts: WordLifts, path: str | Path, *, most: int | None = None, force: bool = False) -> int:
    """Write the list; how many words it has."""
    rows = bias_list(lifts, most)
    with write_file_atomically(path, force=force) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word}\t{ratio:.6g}\n" for word, ratio in rows)
    return len(rows)
