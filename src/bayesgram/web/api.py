"""What the page asks for: JSON for each part, and the files of the page itself.

Every number is checked; every string from a release or a person goes out as JSON, never as HTML.
"""

import asyncio
import threading
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from bayesgram.choices import TokenizerKind
from bayesgram.comparison.comparison import Change, compare
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm.language_model import CACHE_WEIGHT
from bayesgram.pages import STYLE
from bayesgram.planning.simulation import MOST_DRAWS, Assumed, Planner, PlanRequest
from bayesgram.privacy.budget import Budget
from bayesgram.releases.card_sections import find_weaknesses
from bayesgram.reports.views import ChangesView
from bayesgram.text.scanners import APOSTROPHES
from bayesgram.version import VERSION
from bayesgram.web import panels
from bayesgram.web.catalogue import (
    PUBLIC,
    Catalogue,
    Item,
    Kind,
    OrderTable,
    Sort,
    file_name,
    written,
)
from bayesgram.web.guard import AccessPolicy, Guard, RateLimiter
from bayesgram.web.panels import suggest

MOST_TEXT, MOST_WORDS = 1_000, 10  # characters typed, words suggested
MOST_SEARCHED, MOST_ROWS = 100, 100  # characters searched, rows of a page
MOST_PAGES = 10_000_000
KEPT_COMPARISONS = 16
ONE_APOSTROPHE = (TokenizerKind.WORDS, TokenizerKind.MESSAGES)
# Newer versions of FastAPI tell OpenTelemetry what was asked, where that is set up; older ones ignore this.
TELEMETRY: Any = dict.fromkeys(
    ("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False
)
SCRIPTS = (
    *("page.js", "dom.js", "address.js", "numbers.js", "charts.js"),
    *("keyboard.js", "browse.js", "changes.js", "privacy.js", "plan.js"),
)
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}

Text = Annotated[str, Field(max_length=MOST_TEXT)]
Searched = Annotated[str, Query(max_length=MOST_SEARCHED)]


class KeyboardRequest(BaseModel):
    """A text, how many words to suggest, whether the words of the text itself count, and which releases to ask."""

    text: Text = ""
    k: Annotated[int, Field(ge=1, le=MOST_WORDS)] = 5
    cache: bool = False
    releases: list[int] | None = None  # all


class PlanQuery(BaseModel):
    """What somebody would like to plan."""

    users: float
    ngrams_a_user: float
    unevenness: float
    difference: float
    epsilon: float
    delta: float
    size: int
    draw: int = 0


@dataclass(frozen=True)
class TableRequest:
    """Which n-grams somebody looks at, and in what order."""

    release: int = 0
    order: int | None = None  # the longest
    sort: Sort = Sort.PROBABILITY
    text: Searched = ""
    reverse: bool = False


def build(catalogue: Catalogue, entry: AccessPolicy, rates: RateLimiter | None = None) -> Guard:
    """The application behind its guard."""
    app = FastAPI(
        title="bayesgram", docs_url=None, redoc_url=None, openapi_url=None, telemetry=TELEMETRY
    )
    _add_page(app)
    _add_releases(app, catalogue)
    _add_changes(app, catalogue)
    _add_keyboard(app, catalogue)
    _add_plan(app, catalogue)
    _add_errors(app)
    return Guard(app, entry, rates or RateLimiter())


def _add_page(app: FastAPI) -> None:
    """Every file by its own name: no path is ever looked up."""
    for name in ("index.html", "icon.svg", *SCRIPTS):
        path = "/" if name == "index.html" else f"/{name}"
        app.get(path)(_file(name, _read(name)))
    app.get("/page.css")(_file("page.css", STYLE + _read("page.css")))


def _read(name: str) -> str:
    return files("bayesgram.web").joinpath("static", name).read_text("utf-8")


def _file(name: str, content: str) -> Any:  # noqa: ANN401 - an endpoint
    kind = TYPES[name[name.rindex(".") :]]

    async def answer() -> Response:
        return Response(content, media_type=kind)

    return answer


def _add_releases(app: FastAPI, catalogue: Catalogue) -> None:
    told = lru_cache(maxsize=len(catalogue.items))(lambda at: panels.full(catalogue.items[at].view))
    ranking = lru_cache(maxsize=1)(lambda: panels.ranking(catalogue.items))

    @app.get("/api/about")
    async def about() -> dict[str, Any]:
        public = (
            None
            if catalogue.vocabulary is None
            else {"name": PUBLIC, "size": len(catalogue.vocabulary)}
        )
        brief = [panels.brief(item) for item in catalogue.items]
        return {"version": VERSION, "releases": brief, "ranking": ranking(), "public": public}

    @app.get("/api/trade")
    async def trade() -> list[dict[str, Any]]:
        return [panels.trade(item) for item in catalogue.items]

    @app.get("/api/card")
    async def card(release: int = 0) -> dict[str, Any]:
        _item(catalogue, release)
        return told(release)

    @app.get("/api/ngrams")
    async def ngrams(
        wanted: Annotated[TableRequest, Depends()],
        page: Annotated[int, Query(ge=1, le=MOST_PAGES)] = 1,
        size: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 25,
    ) -> Response:
        rows = partial(_rows, catalogue, wanted, (page - 1) * size, size)
        return JSONResponse(await run_in_threadpool(rows) if wanted.text else rows())

    one = asyncio.Lock()  # all rows of a release at once take memory

    @app.get("/api/download")
    async def download(
        wanted: Annotated[TableRequest, Depends()], kind: Kind = Kind.CSV
    ) -> Response:
        async with one:
            content = await run_in_threadpool(_download, catalogue, wanted, kind)
        name = f"{file_name(catalogue.items[wanted.release].view.shown_name)}.{kind}"
        saved = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=kind.media, headers=saved)


def _item(catalogue: Catalogue, release: int) -> Item:
    if not 0 <= release < len(catalogue.items):
        raise UsageError.for_argument(
            "release", release, f"give a number from 0 to {len(catalogue.items) - 1}."
        )
    return catalogue.items[release]


UNSORTED = {  # why
    Sort.DISCOVERED: "all n-grams of this release are from public text.",
    Sort.SURE: "this release doesn't say how sure it is.",
}


def _table(item: Item, wanted: TableRequest) -> OrderTable:
    """The n-grams that are asked for, if they can be sorted so."""
    order, sort = wanted.order or max(item.tables), wanted.sort
    if order not in item.tables:
        raise UsageError.for_argument(
            "order",
            order,
            f"this release has the orders {', '.join(map(str, sorted(item.tables)))}.",
        )
    if sort not in item.tables[order].orderings:
        reason = UNSORTED.get(
            sort, "needs public text; start the page with `bayesgram serve … --vocab`."
        )
        raise UsageError.for_argument("sort", sort, f"{reason}")
    return item.tables[order]


def _searched(item: Item, text: str) -> str:
    """Written as the tokenizer writes words, where it has one way for case and apostrophes."""
    tokenizer = item.model.tokenizer
    plain = _encodable(text).lower() if tokenizer.lowercase else _encodable(text)
    return (
        plain.translate(dict.fromkeys(APOSTROPHES, "'"))
        if tokenizer.kind in ONE_APOSTROPHE
        else plain
    )


def _rows(catalogue: Catalogue, wanted: TableRequest, first: int, size: int) -> dict[str, Any]:
    item = _item(catalogue, wanted.release)
    text = _searched(item, wanted.text)
    page = _table(item, wanted).page(wanted.sort, text, first, size, reverse=wanted.reverse)
    return {"total": page.total, "rows": [{**vars(row), "clear": row.clear} for row in page.rows]}


def _add_changes(app: FastAPI, catalogue: Catalogue) -> None:
    """One comparison at a time: it takes a core for a second or so; the last ones are kept."""
    compared = lru_cache(maxsize=KEPT_COMPARISONS)(
        lambda first, second: _compared(catalogue, first, second)
    )
    one = threading.Lock()

    @app.get("/api/changes")
    async def changes(first: int = 0, second: int = 1) -> Response:
        if _item(catalogue, first) is _item(catalogue, second):
            raise UsageError("From and To are the same release; choose two that differ.")
        if not one.acquire(blocking=False):
            return _error(
                503,
                "another comparison is being made; try again in a moment.",
                {"retry-after": "1"},
            )
        try:
            return JSONResponse(await run_in_threadpool(compared, first, second))
        finally:
            one.release()


def _compared(catalogue: Catalogue, first: int, second: int) -> dict[str, Any]:
    """What rose and fell, as the report has it."""
    views = [catalogue.items[at].view for at in (first, second)]
    view = ChangesView(
        compare(*(each.release for each in views), names=[each.name for each in views])
    )
    tables = {title: [_change(*row) for row in rows] for title, rows in view.tables.items()}
    return {
        "told": view.found.summary,
        "read": view.found.how_to_read,
        "notes": view.notes,
        "tables": tables,
    }


def _change(change: Change, ngram: str, _between: str) -> dict[str, Any]:
    before, after = change.shares
    return {
        "ngram": ngram,
        "before": before,
        "after": after,
        "change": change.description,
        "fdr": change.fdr,
    }


def _download(catalogue: Catalogue, wanted: TableRequest, kind: Kind) -> bytes:
    item = _item(catalogue, wanted.release)
    table = _table(item, wanted)
    return written(
        table, table.rows(wanted.sort, _searched(item, wanted.text), reverse=wanted.reverse), kind
    )


def _add_keyboard(app: FastAPI, catalogue: Catalogue) -> None:
    @app.post("/api/predict")
    async def predict(typed: KeyboardRequest) -> Response:
        items = (
            None
            if typed.releases is None
            else [_item(catalogue, at) for at in dict.fromkeys(typed.releases)]
        )
        cache = CACHE_WEIGHT if typed.cache else 0.0
        answer = suggest(catalogue, _encodable(typed.text), typed.k, cache=cache, items=items)
        columns = [
            {"name": column.name, "words": [vars(word) for word in column.words]}
            for column in answer.columns
        ]
        return JSONResponse({"typed": answer.typed, "columns": columns})


def _encodable(text: str) -> str:
    """Half a character, which JSON can carry and UTF-8 can't, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def _add_plan(app: FastAPI, catalogue: Catalogue) -> None:
    """One simulation at a time: it takes a core for seconds."""
    planner = None if catalogue.vocabulary is None else Planner(catalogue.vocabulary)
    one = threading.Lock()

    @app.get("/api/plan")
    async def bounds() -> dict[str, Any]:
        if planner is None:
            return {"possible": False}
        return {
            "possible": True,
            "smallest": planner.smallest,
            "largest": planner.largest,
            "draws": MOST_DRAWS,
        }

    @app.post("/api/plan")
    async def plan(asked: PlanQuery) -> Response:
        if planner is None:
            raise UsageError(
                "plan: needs public text; start the page with `bayesgram serve … --vocab`."
            )
        assumed = Assumed(asked.users, asked.ngrams_a_user, asked.unevenness, asked.difference)
        request = PlanRequest(assumed, Budget(asked.epsilon, asked.delta), asked.size)
        if not one.acquire(blocking=False):
            return _error(
                503, "another plan is being made; try again in a moment.", {"retry-after": "5"}
            )
        try:
            expected = await run_in_threadpool(planner.expect, request, asked.draw)
            warnings = [
                str(weakness)
                for weakness in find_weaknesses(asked.epsilon, asked.delta, round(asked.users))
            ]
            return JSONResponse({**asdict(expected), "warnings": warnings})
        finally:
            one.release()


def _add_errors(app: FastAPI) -> None:
    """Short JSON; nothing that was sent is repeated but numbers out of range."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        where = {
            str(part)
            for found in error.errors()
            for part in found["loc"][1:2]
            if isinstance(part, str)
        }
        known = sorted(
            name
            for name in where
            if name in {*KeyboardRequest.model_fields, *PlanQuery.model_fields, *QUERY}
        )
        return _error(
            422, f"out of range or of the wrong kind: {', '.join(known) or 'the request'}."
        )

    @app.exception_handler(BayesgramError)
    async def wrong(_request: Request, error: BayesgramError) -> Response:
        return _error(422 if isinstance(error, UsageError) else 500, str(error))

    @app.exception_handler(HTTPException)
    async def refused(_request: Request, error: HTTPException) -> Response:
        told = {404: "there is nothing here.", 405: "this can't be done here."}
        return _error(error.status_code, told.get(error.status_code, "the request can't be read."))

    @app.exception_handler(Exception)
    async def failed(_request: Request, _failure: Exception) -> Response:
        return _error(500, "something went wrong inside bayesgram.")


QUERY = ("release", "first", "second", "order", "sort", "reverse", "page", "size", "text", "kind")


def _error(status: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, status, headers)
