"""The requests that the page makes: JSON for each of its parts, and the files of the page itself.

Every number that comes in is checked. Every string from a release or a person goes out as JSON,
never as HTML; pictures go out as trees of elements, which the page builds one by one.
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

from bayesgram.charts import printable
from bayesgram.choices import TokenizerKind
from bayesgram.comparison.comparison import Change, compare
from bayesgram.errors import BayesgramError, UsageError
from bayesgram.lm.language_model import CACHE_WEIGHT
from bayesgram.pages import STYLE
from bayesgram.planning.simulation import MAX_DRAWS, Assumptions, Planner, PlanRequest
from bayesgram.privacy.budget import Budget
from bayesgram.releases.card_sections import find_weaknesses
from bayesgram.reports.pictures import ExpectedKl, draw_expected_kl
from bayesgram.reports.views import ChangesView
from bayesgram.text.scanners import APOSTROPHES
from bayesgram.version import VERSION
from bayesgram.web import panels
from bayesgram.web.catalogue import (
    PUBLIC,
    Catalogue,
    FileKind,
    Item,
    OrderTable,
    Sort,
    file_name,
    write_rows,
)
from bayesgram.web.guard import AccessPolicy, Guard, RateLimiter
from bayesgram.web.panels import suggest

# Limits of what may be asked for. Chosen by hand; none of them was measured.
MAX_TEXT_LENGTH = 1_000  # characters typed
MAX_WORDS = 10  # words suggested
MAX_SEARCH_LENGTH = 100  # characters of a search
MAX_ROWS = 100  # rows of a page of n-grams
MAX_PAGES = 10_000_000
MAX_POINTS = 20  # values of ε in the picture of a plan
CACHED_COMPARISONS = 16  # kept in memory

# Tokenizers that write every apostrophe as '.
ONE_APOSTROPHE = (TokenizerKind.WORDS, TokenizerKind.MESSAGES, TokenizerKind.ROWS)
# Newer versions of FastAPI tell OpenTelemetry what was asked, where that is set up; older ones
# ignore this.
TELEMETRY: Any = dict.fromkeys(
    ("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False
)
SCRIPTS = (
    *("page.js", "dom.js", "address.js", "numbers.js", "charts.js"),
    *("keyboard.js", "browse.js", "changes.js", "privacy.js", "plan.js"),
)
MEDIA_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}

Width = Annotated[int, Query(ge=200, le=2_000)]  # pixels


class KeyboardRequest(BaseModel):
    """A text whose next words are asked for."""

    text: Annotated[str, Field(max_length=MAX_TEXT_LENGTH)] = ""
    k: Annotated[int, Field(ge=1, le=MAX_WORDS)] = 5  # words of each column
    cache: bool = False  # whether the words of the text itself count
    releases: list[int] | None = None  # which to ask; None: all


class PlanQuery(BaseModel):
    """A release that somebody would like to plan, and the number of the simulation."""

    users: float
    ngrams_a_user: float
    unevenness: float
    difference: float
    epsilon: float
    delta: float
    size: int
    draw: int = 0


Positive = Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]
Kl = Annotated[float, Field(ge=0, lt=1e9, allow_inf_nan=False)]


class PlanPoint(BaseModel):
    """The KL of simulated releases at one ε."""

    epsilon: Positive
    kls: Annotated[list[Kl], Field(min_length=1, max_length=MAX_DRAWS)]


class PlanPictureRequest(BaseModel):
    """The simulated releases of a plan that the page wants a picture of."""

    points: Annotated[list[PlanPoint], Field(min_length=1, max_length=MAX_POINTS)]
    public_kl: Kl
    width: Annotated[int, Field(ge=200, le=2_000)] = 720


@dataclass(frozen=True)
class TableRequest:
    """Which n-grams somebody looks at, and in what order."""

    release: int = 0
    order: int | None = None  # None: the longest
    sort: Sort = Sort.PROBABILITY
    text: Annotated[str, Query(max_length=MAX_SEARCH_LENGTH)] = ""
    reverse: bool = False


def build(catalogue: Catalogue, policy: AccessPolicy, rates: RateLimiter | None = None) -> Guard:
    """Build the application of the page, behind its guard.

    Args:
        catalogue: What the page reads.
        policy: Which requests are answered.
        rates: How many of them; the usual limits without it.
    """
    app = FastAPI(
        title="bayesgram", docs_url=None, redoc_url=None, openapi_url=None, telemetry=TELEMETRY
    )
    _add_page(app)
    _add_releases(app, catalogue)
    _add_changes(app, catalogue)
    _add_keyboard(app, catalogue)
    _add_plan(app, catalogue)
    _add_errors(app)
    return Guard(app, policy, rates or RateLimiter())


def _add_page(app: FastAPI) -> None:
    """Add a route for each file of the page: no path from outside is ever looked up."""
    for name in ("index.html", "icon.svg", *SCRIPTS):
        path = "/" if name == "index.html" else f"/{name}"
        app.get(path)(_file_endpoint(name, _read_file(name)))
    app.get("/page.css")(_file_endpoint("page.css", STYLE + _read_file("page.css")))


def _read_file(name: str) -> str:
    return files("bayesgram.web").joinpath("static", name).read_text("utf-8")


def _file_endpoint(name: str, content: str) -> Any:  # noqa: ANN401 - an endpoint
    media_type = MEDIA_TYPES[name[name.rindex(".") :]]

    async def respond() -> Response:
        return Response(content, media_type=media_type)

    return respond


def _add_releases(app: FastAPI, catalogue: Catalogue) -> None:
    details = lru_cache(maxsize=len(catalogue.items))(
        lambda place: panels.card_details(catalogue.items[place].view)
    )
    ranking = lru_cache(maxsize=1)(lambda: panels.rank_releases(catalogue.items))
    defaults = lru_cache(maxsize=1)(lambda: panels.default_places(catalogue.items))
    measures = lru_cache(maxsize=1)(lambda: panels.trade_measures(catalogue.items))

    @app.get("/api/about")
    async def about() -> dict[str, Any]:
        vocabulary = catalogue.vocabulary
        public = None
        if vocabulary is not None and catalogue.public_model is not None:
            public = {"name": PUBLIC, "size": len(vocabulary)}
        releases = [panels.summarize_release(item) for item in catalogue.items]
        return {
            "version": VERSION,
            "releases": releases,
            "ranking": ranking(),
            "defaults": defaults(),
            "public": public,
        }

    @app.get("/api/trade")
    async def trade() -> list[dict[str, str]]:
        return [asdict(measure) for measure in measures()]

    @app.get("/api/trade/picture")
    async def trade_picture(measure: str, width: Width = 720) -> dict[str, Any]:
        chosen = next((choice for choice in measures() if choice.key == measure), None)
        if chosen is None:
            raise UsageError("measure: choose one of those that /api/trade lists.")
        drawing, left_out = panels.draw_trade_for(catalogue.items, chosen, width)
        return {"picture": None if drawing is None else drawing.to_tree(), "silent": left_out}

    @app.get("/api/card")
    async def card(release: int = 0) -> dict[str, Any]:
        _find_item(catalogue, release)
        return details(release)

    @app.get("/api/card/pictures")
    async def card_pictures(release: int = 0, width: Width = 720) -> dict[str, Any]:
        drawings = panels.draw_card(_find_item(catalogue, release).view, width)
        return {name: drawing.to_tree() for name, drawing in drawings.items()}

    @app.get("/api/ngrams")
    async def ngrams(
        request: Annotated[TableRequest, Depends()],
        page: Annotated[int, Query(ge=1, le=MAX_PAGES)] = 1,
        size: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 25,
    ) -> Response:
        rows = partial(_table_rows, catalogue, request, (page - 1) * size, size)
        return JSONResponse(await run_in_threadpool(rows) if request.text else rows())

    one_download = asyncio.Lock()  # all rows of a release at once take memory

    @app.get("/api/download")
    async def download(
        request: Annotated[TableRequest, Depends()], kind: FileKind = FileKind.CSV
    ) -> Response:
        async with one_download:
            content = await run_in_threadpool(_download, catalogue, request, kind)
        name = f"{file_name(catalogue.items[request.release].view.shown_name)}.{kind}"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=kind.media_type, headers=headers)


def _find_item(catalogue: Catalogue, release: int) -> Item:
    if not 0 <= release < len(catalogue.items):
        raise UsageError(f"release={release}: give a number from 0 to {len(catalogue.items) - 1}.")
    return catalogue.items[release]


WHY_UNSORTED = {
    Sort.DISCOVERED: "all n-grams of this release are from public text.",
    Sort.SURE: "this release does not say how accurate it is.",
}


def _find_table(item: Item, request: TableRequest) -> OrderTable:
    """Return the table that is asked for, if it can be sorted as asked."""
    order = request.order or max(item.tables)
    if order not in item.tables:
        orders = ", ".join(map(str, sorted(item.tables)))
        raise UsageError(f"order={order}: this release has the orders {orders}.")
    if request.sort not in item.tables[order].orderings:
        needs_public = "needs public text; start the page with `bayesgram serve … --vocab`."
        reason = WHY_UNSORTED.get(request.sort, needs_public)
        raise UsageError(f"sort={request.sort}: {reason}")
    return item.tables[order]


def _normalize_search(item: Item, text: str) -> str:
    """Write a search as the tokenizer writes words: one case, one apostrophe."""
    tokenizer = item.model.tokenizer
    normal = _replace_surrogates(text)
    if tokenizer.lowercase:
        normal = normal.lower()
    if tokenizer.kind in ONE_APOSTROPHE:
        normal = normal.translate(dict.fromkeys(APOSTROPHES, "'"))
    return normal


def _table_rows(
    catalogue: Catalogue, request: TableRequest, first: int, size: int
) -> dict[str, Any]:
    item = _find_item(catalogue, request.release)
    text = _normalize_search(item, request.text)
    page = _find_table(item, request).page(request.sort, text, first, size, reverse=request.reverse)
    return {
        "total": page.total,
        "rows": [{**vars(row), "clear": row.is_clear} for row in page.rows],
    }


def _download(catalogue: Catalogue, request: TableRequest, kind: FileKind) -> bytes:
    item = _find_item(catalogue, request.release)
    table = _find_table(item, request)
    text = _normalize_search(item, request.text)
    return write_rows(table, table.rows(request.sort, text, reverse=request.reverse), kind)


def _add_changes(app: FastAPI, catalogue: Catalogue) -> None:
    """Add comparisons, one at a time: each takes a core for about a second."""
    compare_cached = lru_cache(maxsize=CACHED_COMPARISONS)(partial(_compare, catalogue))
    one_comparison = threading.Lock()

    @app.get("/api/changes")
    async def changes(first: int = 0, second: int = 1) -> Response:
        if _find_item(catalogue, first) is _find_item(catalogue, second):
            raise UsageError("From and To are the same release; choose two different ones.")
        if not one_comparison.acquire(blocking=False):
            reason = "Another comparison is running; try again in a moment."
            return _error(503, reason, {"retry-after": "1"})
        try:
            return JSONResponse(await run_in_threadpool(compare_cached, first, second))
        finally:
            one_comparison.release()


def _compare(catalogue: Catalogue, first: int, second: int) -> dict[str, Any]:
    """Return what rose and fell between two releases, or why they can't be compared."""
    views = [catalogue.items[place].view for place in (first, second)]
    names = [view.name for view in views]
    try:
        view = ChangesView(compare(*(view.release for view in views), names=names))
    except UsageError as error:
        return {"summary": printable(str(error)), "how_to_read": "", "notes": [], "tables": {}}
    tables = {title: [_change_row(*row) for row in rows] for title, rows in view.tables.items()}
    return {
        "summary": view.summary,
        "how_to_read": view.comparison.how_to_read,
        "notes": view.notes,
        "tables": tables,
    }


def _change_row(change: Change, ngram: str, _between: str) -> dict[str, Any]:
    before, after = change.shares
    return {
        "ngram": ngram,
        "before": before,
        "after": after,
        "change": change.description,
        "fdr": change.fdr,
    }


def _add_keyboard(app: FastAPI, catalogue: Catalogue) -> None:
    @app.post("/api/predict")
    async def predict(request: KeyboardRequest) -> Response:
        items = None
        if request.releases is not None:
            items = [_find_item(catalogue, place) for place in dict.fromkeys(request.releases)]
        cache = CACHE_WEIGHT if request.cache else 0.0
        text = _replace_surrogates(request.text)
        suggestions = suggest(catalogue, text, request.k, cache=cache, items=items)
        columns = [
            {"name": column.name, "words": [vars(word) for word in column.words]}
            for column in suggestions.columns
        ]
        return JSONResponse({"typed": suggestions.typed, "columns": columns})


def _replace_surrogates(text: str) -> str:
    """Replace half characters, which JSON can carry and UTF-8 can't, by question marks."""
    return text.encode("utf-8", "replace").decode()


def _add_plan(app: FastAPI, catalogue: Catalogue) -> None:
    """Add simulations, one at a time: each takes a core for seconds."""
    planner = None if catalogue.vocabulary is None else Planner(catalogue.vocabulary)
    one_plan = threading.Lock()

    @app.get("/api/plan")
    async def bounds() -> dict[str, Any]:
        if planner is None:
            return {"possible": False}
        return {
            "possible": True,
            "smallest": planner.min_size,
            "largest": planner.max_size,
            "draws": MAX_DRAWS,
        }

    @app.post("/api/plan")
    async def plan(query: PlanQuery) -> Response:
        if planner is None:
            raise UsageError(
                "plan: needs public text; start the page with `bayesgram serve … --vocab`."
            )
        assumptions = Assumptions(
            query.users, query.ngrams_a_user, query.unevenness, query.difference
        )
        request = PlanRequest(assumptions, Budget(query.epsilon, query.delta), query.size)
        if not one_plan.acquire(blocking=False):
            reason = "Another plan is running; try again in a moment."
            return _error(503, reason, {"retry-after": "5"})
        try:
            simulated = await run_in_threadpool(planner.simulate, request, query.draw)
        finally:
            one_plan.release()
        weaknesses = find_weaknesses(query.epsilon, query.delta, round(query.users))
        warnings = [str(weakness) for weakness in weaknesses]
        return JSONResponse({**simulated.to_json(), "warnings": warnings})

    @app.post("/api/plan/picture")
    async def plan_picture(request: PlanPictureRequest) -> dict[str, Any]:
        expected = [
            ExpectedKl(
                point.epsilon, sum(point.kls) / len(point.kls), min(point.kls), max(point.kls)
            )
            for point in request.points
        ]
        drawing = draw_expected_kl(
            expected, request.public_kl, width=request.width, is_interactive=True
        )
        return {"picture": drawing.to_tree()}


def _add_errors(app: FastAPI) -> None:
    """Answer errors by short JSON that repeats nothing that was sent but numbers out of range."""

    @app.exception_handler(RequestValidationError)
    async def answer_invalid_request(_request: Request, error: RequestValidationError) -> Response:
        # The first part of a location is "query" or "body"; the second names the field, but may
        # also be text that was sent. Only names that the page itself uses are repeated.
        places = {
            str(part)
            for problem in error.errors()
            for part in problem["loc"][1:2]
            if isinstance(part, str)
        }
        names = ", ".join(sorted(places & FIELDS)) or "the request"
        return _error(422, f"out of range or of the wrong kind: {names}.")

    @app.exception_handler(BayesgramError)
    async def answer_known_error(_request: Request, error: BayesgramError) -> Response:
        return _error(422 if isinstance(error, UsageError) else 500, str(error))

    @app.exception_handler(HTTPException)
    async def answer_http_error(_request: Request, error: HTTPException) -> Response:
        reasons = {404: "there is nothing here.", 405: "this can't be done here."}
        reason = reasons.get(error.status_code, "the request can't be read.")
        return _error(error.status_code, reason)

    @app.exception_handler(Exception)
    async def answer_unexpected_error(_request: Request, _failure: Exception) -> Response:
        return _error(500, "something went wrong inside bayesgram.")


# Names that an error may repeat.
FIELDS = {
    *KeyboardRequest.model_fields,
    *PlanQuery.model_fields,
    *PlanPictureRequest.model_fields,
    *("release", "first", "second", "order", "sort", "reverse", "page", "size", "text", "kind"),
    *("measure", "width"),
}


def _error(status: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, status, headers)
