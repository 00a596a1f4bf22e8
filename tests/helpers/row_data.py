"""A small world for rows: public text, the model of its words, and a vocabulary without rows."""

import pyarrow as pa

from bayesgram.public.candidate_weights import PublicTextModel
from bayesgram.public.public_model import PublicModel
from bayesgram.public.vocabulary import Vocabulary
from bayesgram.text.tokenizer import Tokenizer

ROWS = Tokenizer("rows")
PUBLIC_TEXT = pa.table(
    {
        "text": [
            "the weather in berlin is cold.",
            "what is the weather today? it is cold in winter.",
            "how to cook fish in cold water",
            "people like fish and the weather",
        ]
        * 5
    }
)


def make_public(size=0):
    """What public text says of rows; the vocabulary has the `size` most frequent public rows."""
    vocabulary = Vocabulary.from_public(PUBLIC_TEXT, tokenizer=ROWS, size=size)
    model = PublicModel.from_public(vocabulary, PUBLIC_TEXT).mixture
    return PublicTextModel.from_vocabulary(vocabulary, model)


PUBLIC = make_public()
