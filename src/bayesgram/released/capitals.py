"""Words of a lower-case model as a person would write them here: by what is typed, and where a sentence begins.

Does not know which words are names: a model with case kept does (`--keep-case`).
"""


def as_written(word: str, typed: str, *, begins_sentence: bool) -> str:
    """A suggested word with the capitals that belong there.

    >>> as_written("hello", "", begins_sentence=True), as_written("hello", "", begins_sentence=False)
    ('Hello', 'hello')
    >>> as_written("hello", "HE", begins_sentence=False), as_written("hello", "He", begins_sentence=False)
    ('HELLO', 'Hello')
    >>> as_written("hello", "he", begins_sentence=True), as_written("ǆ", "", begins_sentence=True)
    ('hello', 'ǅ')
    """
    if sum(map(str.isalpha, typed)) > 1 and typed.isupper():
        return word.upper()
    if typed[:1].isupper() or (begins_sentence and not typed):
        return word[:1].title() + word[1:]
    return word
