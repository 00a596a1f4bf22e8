"""Arguments of the wrong type, said in our words: which argument, what it takes, what was given.

In:  a function with type hints.   Out: the same function, which refuses what its hints exclude.
Does not look inside a value, nor show it: a list where a table belongs may be somebody's text. What hints can't say
(ranges, texts of a certain form) is checked where it is used.
"""

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, wraps
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from bayesgram.errors import UsageError

Takes = ParamSpec("Takes")
Returns = TypeVar("Returns")

ONE_OR_MANY = "a list"
WORDS = {  # for what `bayesgram` has no name for
    "PrivateCounts": "private counts",
    "SegmentedCounts": "private counts",
    "Mechanism": "a mechanism",
    "PublicText": "a Vocabulary",
    "PublicTable": "a Vocabulary",
}
READ = {  # how something is read from a file
    "PrivateCounts": "load_counts(path)",
    "Ledger": "Ledger.open(path)",
    "PublicText": "Vocabulary.load(path)",
    "PublicTable": "Vocabulary.load(path)",
}


def check_arguments(function: Callable[Takes, Returns]) -> Callable[Takes, Returns]:
    """Refuse arguments of types that the function's hints exclude.

    >>> @check_arguments
    ... def count(text: str, size: int = 3) -> int:
    ...     return size
    >>> count("red fish", size="many")
    Traceback (most recent call last):
    bayesgram.errors.UsageError: size: takes a whole number, and a str was given.
    """
    signature = inspect.signature(function)
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}

    @cache  # when it is first called: all modules are loaded by then
    def hints() -> dict[str, Any]:
        found = get_type_hints(function).items()
        return {
            name: hint
            for name, hint in found
            if kinds.get(name) is not inspect.Parameter.VAR_KEYWORD
        }

    fitting: set[object] = (
        set()
    )  # the types of arguments that were looked at and fit: some functions are called often

    @wraps(function)
    def call(*args: Takes.args, **kwargs: Takes.kwargs) -> Returns:
        given = (*map(type, args), *((name, type(value)) for name, value in kwargs.items()))
        if given not in fitting:
            try:
                bound = signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise UsageError(f"{function.__name__}: {error}.") from None
            for name, value in bound.items():
                for each in value if kinds[name] is inspect.Parameter.VAR_POSITIONAL else (value,):
                    _check({name: each}, hints())
            fitting.add(given)
        return function(*args, **kwargs)

    return call


def check_fields(made: object) -> None:
    """The same for the fields of a dataclass, from its `__post_init__`."""
    _check(vars(made), get_type_hints(type(made)))


def _check(given: Mapping[str, object], hints: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if not _fits(value, hints.get(name, Any)):
            problem = f"{_article(_kind(value))} was given"
            raise UsageError(
                f"{name}: takes {_wanted(hints[name])}, and {problem}{_next_step(value, hints[name])}."
            )


def _fits(value: object, hint: Any) -> bool:  # noqa: ANN401 - any type hint
    """Whether a value may be of a type; hints that are not understood exclude nothing."""
    if get_origin(hint) in {Union, types.UnionType}:
        return any(_fits(value, each) for each in get_args(hint))
    kind = get_origin(hint) or hint
    if kind is float or kind is int:
        return isinstance(value, Real if kind is float else Integral) and not isinstance(
            value, bool
        )
    if kind is Path:
        return isinstance(value, PathLike)
    if (
        not isinstance(kind, type) or kind in (object, Any) or issubclass(kind, Enum)
    ):  # may be given as text
        return True
    if issubclass(kind, Mapping) or not issubclass(kind, Iterable) or hint is kind:
        return _is_instance(value, kind)
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def _is_instance(value: object, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that says nothing about values, except that plain ones don't do
        return not isinstance(value, str | bytes | Real | PathLike)


def _wanted(hint: Any) -> str:  # noqa: ANN401 - any type hint
    """What an argument takes, in words.

    >>> _wanted(str | Path), _wanted(int | None), _wanted(list[int])
    ('a str or a Path', 'a whole number or None', 'a list')
    """
    if get_origin(hint) in {Union, types.UnionType}:
        return " or ".join(dict.fromkeys(_wanted(each) for each in get_args(hint)))
    kind = get_origin(hint) or hint
    if kind is types.NoneType:
        return "None"
    if kind in (int, float):
        return "a whole number" if kind is int else "a number"
    if kind is not hint and not issubclass(kind, Mapping):
        return ONE_OR_MANY
    if kind.__name__ in WORDS:
        return WORDS[kind.__name__]
    return _article("dict" if issubclass(kind, Mapping) else kind.__name__)


def _next_step(value: object, hint: Any) -> str:  # noqa: ANN401 - any type hint
    """What to write instead, where that is plain: an object in place of its class, or of the path of its file.

    >>> from bayesgram.releases.release import Release
    >>> _next_step("out", Release)
    '; read it with Release.load(path)'
    """
    kinds = [each for each in (get_args(hint) or (hint,)) if isinstance(each, type)]
    if isinstance(value, type):
        return f"; make one with {value.__name__}()"
    if not isinstance(value, str | PathLike):
        return ""
    if any(kind.__name__ == "Mechanism" for kind in kinds):
        return "; give one such as Posterior()"
    found = (
        READ.get(kind.__name__, f"{kind.__name__}.load(path)" if hasattr(kind, "load") else "")
        for kind in kinds
    )
    reader = next(filter(None, found), "")
    return f"; read it with {reader}" if reader else ""


def _kind(value: object) -> str:
    """The name of a value's type, or of the class that was given in place of an object."""
    return f"class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _article(name: str) -> str:
    if name == "NoneType":
        return "None"
    return (
        f"the {name}"
        if name.startswith("class ")
        else f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"
    )
