"""Check the types of arguments against type hints, and say in our words what is wrong.

`check_arguments` decorates a public function, and `check_fields` is for dataclasses. A message
names the parameter, what it takes and the type that was given. It never shows the value: a list
where a table belongs may be somebody's text. What hints can't say (ranges, texts of a certain form)
is checked where it is used.
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

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

# What a message calls types that have no public name.
TYPE_NAMES = {
    "PrivateCounts": "private counts",
    "SegmentedCounts": "private counts",
    "CountsMechanism": "a mechanism",
    "PublicText": "a Vocabulary",
    "PublicDistribution": "a Vocabulary",
    "PublicTable": "a Vocabulary",
}
# How an object of a type is read from a file.
READERS = {
    "PrivateCounts": "load_counts(path)",
    "Ledger": "Ledger.open(path)",
    "PublicText": "Vocabulary.load(path)",
    "PublicDistribution": "Vocabulary.load(path)",
    "PublicTable": "Vocabulary.load(path)",
}


def check_arguments(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
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

    @cache  # computed at the first call, when all modules are loaded
    def hints() -> dict[str, Any]:
        return {
            name: hint
            for name, hint in get_type_hints(function).items()
            if kinds.get(name) is not inspect.Parameter.VAR_KEYWORD
        }

    # The types of arguments that were checked and fit: some functions are called often.
    fitting_types: set[object] = set()

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        types_ = (*map(type, args), *((name, type(value)) for name, value in kwargs.items()))
        if types_ not in fitting_types:
            try:
                bound = signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise UsageError(f"{function.__name__}: {error}.") from None
            for name, value in bound.items():
                is_variadic = kinds[name] is inspect.Parameter.VAR_POSITIONAL
                for item in value if is_variadic else (value,):
                    _check({name: item}, hints())
            fitting_types.add(types_)
        return function(*args, **kwargs)

    return call


def check_fields(instance: object) -> None:
    """Do the same for the fields of a dataclass, from its `__post_init__`."""
    _check(vars(instance), get_type_hints(type(instance)))


def _check(arguments: Mapping[str, object], hints: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if not _fits(value, hints.get(name, Any)):
            hint = hints[name]
            raise UsageError(
                f"{name}: takes {_describe_hint(hint)}, and {_with_article(_type_name(value))} was"
                f" given{_next_step(value, hint)}."
            )


def _fits(value: object, hint: Any) -> bool:  # noqa: ANN401 - any type hint
    """Return whether a hint allows a value; hints that are not understood exclude nothing."""
    if get_origin(hint) in {Union, types.UnionType}:
        return any(_fits(value, option) for option in get_args(hint))
    kind = get_origin(hint) or hint
    if kind is float or kind is int:
        number_type = Real if kind is float else Integral
        return isinstance(value, number_type) and not isinstance(value, bool)
    if kind is Path:
        return isinstance(value, PathLike)
    if not isinstance(kind, type) or kind in (object, Any) or issubclass(kind, Enum):
        return True  # an enumeration may be given as text
    if issubclass(kind, Mapping) or not issubclass(kind, Iterable) or hint is kind:
        return _is_instance(value, kind)
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def _is_instance(value: object, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that says nothing about values, except that plain ones don't do
        return not isinstance(value, str | bytes | Real | PathLike)


def _describe_hint(hint: Any) -> str:  # noqa: ANN401 - any type hint
    """Return what an argument takes, in words.

    >>> _describe_hint(str | Path), _describe_hint(int | None), _describe_hint(list[int])
    ('a str or a Path', 'a whole number or None', 'a list')
    """
    if get_origin(hint) in {Union, types.UnionType}:
        return " or ".join(dict.fromkeys(map(_describe_hint, get_args(hint))))
    kind = get_origin(hint) or hint
    if kind is types.NoneType:
        return "None"
    if kind in (int, float):
        return "a whole number" if kind is int else "a number"
    if kind is not hint and not issubclass(kind, Mapping):
        return "a list"
    if kind.__name__ in TYPE_NAMES:
        return TYPE_NAMES[kind.__name__]
    return _with_article("dict" if issubclass(kind, Mapping) else kind.__name__)


def _next_step(value: object, hint: Any) -> str:  # noqa: ANN401 - any type hint
    """Return what to write instead, where that is plain.

    It is an object in place of its class, or of the path of its file.

    >>> from bayesgram.releases.release import Release
    >>> _next_step("out", Release)
    '; read it with Release.load(path)'
    """
    kinds = [kind for kind in (get_args(hint) or (hint,)) if isinstance(kind, type)]
    if isinstance(value, type):
        return f"; make one with {value.__name__}()"
    takes_mechanism = any(kind.__name__ == "CountsMechanism" for kind in kinds)
    if takes_mechanism and isinstance(value, Real) and not isinstance(value, bool):
        return f"; give ε by its name: epsilon={float(value):g}"
    if takes_mechanism and type(value).__name__ == "Budget":
        return "; give ε and δ by their names, such as epsilon=1, delta=1e-7"
    if not isinstance(value, str | PathLike):
        return ""
    if takes_mechanism:
        return "; give one such as Posterior()"
    readers = (
        READERS.get(kind.__name__, f"{kind.__name__}.load(path)" if hasattr(kind, "load") else "")
        for kind in kinds
    )
    reader = next(filter(None, readers), "")
    return f"; read it with {reader}" if reader else ""


def _type_name(value: object) -> str:
    """Return the name of a value's type, or of the class that was given in place of an object."""
    return f"class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _with_article(name: str) -> str:
    if name == "NoneType":
        return "None"
    if name.startswith("class "):
        return f"the {name}"
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"
