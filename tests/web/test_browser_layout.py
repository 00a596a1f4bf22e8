"""The page in a real browser: how it looks, wide and narrow, light and dark, with one release and with many."""

import pytest

from helpers.web_catalogue import IMAGE, SCRIPT

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
WIDTHS = "[document.documentElement.scrollWidth, window.innerWidth]"


def test_markup_in_ngrams_and_names_is_text(opened):
    page = opened("keyboard")
    page.get_by_label("Your text").fill("thank you ")
    playwright.expect(page.locator(".word bdi", has_text=IMAGE).first).to_have_text(IMAGE)
    page.get_by_role("link", name="Browse").click()
    page.get_by_label("Contains").fill("<script>")
    cell = page.locator("#ngrams tbody td bdi").first
    playwright.expect(cell).to_contain_text(SCRIPT)
    assert page.locator("main script, main img").count() == 0
    page.get_by_role("link", name="Privacy").click()
    page.locator("#card-release").select_option("2")
    playwright.expect(page.locator("#card h3").first).to_contain_text(f"k {SCRIPT}")


@pytest.mark.parametrize("width", [390, 1280])
def test_the_card_says_which_public_text_people_write_like(opened, sources_address, width):
    page = opened("privacy", at=sources_address, width=width)
    card = page.locator("#card")
    playwright.expect(card).to_contain_text(
        "People's text resembles reviews (60% ± 1) and talk (34% ± 1)"
    )
    marks = card.get_by_role("group", name="Weights of the public sources").get_by_role("img")
    playwright.expect(marks).to_have_count(6)
    assert [mark.get_attribute("aria-label") for mark in marks.all()][::3] == [
        *("reviews, trigrams: 60% ± 1.", "talk, words: 50% ± 1.")
    ]
    marks.nth(2).focus()
    playwright.expect(card.get_by_role("status").first).to_have_text("wiki, trigrams: 6% ± 1.")
    seen, room = page.evaluate(WIDTHS)
    assert seen <= room
    page.locator("#card-release").select_option("1")
    playwright.expect(card).to_contain_text(
        "Too noisy to say which public text people's text resembles."
    )
    page.locator("#card-release").select_option("2")
    playwright.expect(card).to_contain_text("How many users were clipped")
    playwright.expect(card).not_to_contain_text("resembles")


@pytest.mark.parametrize("part", ["keyboard", "browse", "changes", "privacy", "plan"])
def test_a_phone_shows_everything_without_scrolling_sideways(opened, part):
    page = opened(part, width=360)
    playwright.expect(page.locator(f"#{part} h2")).to_be_visible()
    page.wait_for_load_state("networkidle")
    needed, there = page.evaluate(WIDTHS)
    assert needed <= there


@pytest.mark.parametrize("width", [360, 1200])
def test_what_is_proved_and_protects_little_says_so(opened, weak_address, width):
    page = opened("keyboard", at=weak_address, width=width)
    playwright.expect(page.locator(".column .grade")).to_have_text(["weak", "worthless"])
    playwright.expect(page.locator(".column .claim").nth(2)).to_have_text(
        "posterior · ε = 100, δ = 1e-07"
    )
    page.get_by_role("link", name="Privacy").click()
    playwright.expect(page.locator("#trade-table .grade")).to_have_text(["weak", "worthless"])
    page.locator("#card-release").select_option("1")
    playwright.expect(page.locator("#card .warning")).to_have_text(
        [
            "Worthless: ε = 100 allows odds to change by a factor of 2.7e+43: PROVED, and it protects nobody."
        ]
    )
    needed, there = page.evaluate(WIDTHS)
    assert needed <= there


def test_a_plan_that_protects_little_says_so(opened, weak_address):
    page = opened("plan", at=weak_address)
    playwright.expect(page.get_by_label("N-grams in the vocabulary")).to_have_value("69")
    page.get_by_label("δ", exact=True).fill("0.5")
    page.get_by_role("button", name="Simulate").click()
    playwright.expect(page.locator("#plan-warnings .warning")).to_contain_text("a chance of 1 in 2")
    page.locator("#plan-stop").dispatch_event("click")  # if it has not come to its end by itself
    playwright.expect(page.locator("#plan-stop")).to_be_hidden()


def test_dark_mode_follows_the_system(opened):
    def background(scheme):
        page = opened("keyboard", scheme=scheme)
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert background("light") == "rgb(255, 255, 255)"
    assert background("dark") == "rgb(22, 24, 28)"


def test_landmarks_and_names(opened):
    page = opened("")
    for role in ("banner", "navigation", "main", "contentinfo"):
        assert page.get_by_role(role).count() == 1
    playwright.expect(page.get_by_role("link", name="Keyboard")).to_have_attribute(
        "aria-current", "page"
    )
    unnamed = "[...document.querySelectorAll('input, select, textarea')].filter(e => !e.labels.length).map(e => e.id)"
    assert page.evaluate(unnamed) == []
    page.keyboard.press("Tab")
    playwright.expect(page.get_by_text("Skip to the page")).to_be_focused()
    playwright.expect(page).to_have_title("Keyboard – Bayesgram")


def test_the_best_proved_column_is_marked_and_another_is_one_tab_away(opened):
    page = opened("keyboard")
    playwright.expect(page.locator(".column.chosen h3")).to_contain_text("eps-1")
    page.get_by_label("Your text").focus()
    page.keyboard.press("Tab")
    playwright.expect(page.locator("#marked")).to_be_focused()
    page.keyboard.press("ArrowUp")
    playwright.expect(page.locator(".column.chosen h3")).to_contain_text("eps-0.1")
    page.reload()
    playwright.expect(page.locator(".column.chosen h3")).to_contain_text("eps-0.1")


def test_colours_are_those_of_the_label(opened, many_address):
    page = opened("keyboard", at=many_address)
    page.locator("#chooser summary").click()
    page.get_by_role("button", name="All", exact=True).click()
    playwright.expect(page.locator(".column")).to_have_count(15)
    colour = "(kind) => getComputedStyle(document.querySelector(`.column.${kind} .likely`)).fill"
    playwright.expect(page.locator(".column.NONE .likely").first).to_be_attached()
    kinds = ["PROVED", "EMPIRICAL", "NONE"]
    assert [page.evaluate(colour, kind) for kind in kinds] == [
        "rgb(27, 127, 92)",
        "rgb(217, 140, 31)",
        "rgb(138, 143, 152)",
    ]
    page.goto(f"{many_address}#browse?release=made-none")
    playwright.expect(page.locator("#ngrams tbody circle.NONE").first).to_be_visible()
    assert page.locator("#ngrams tbody circle.PROVED").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_many_releases_have_room(opened, many_address, width):
    page = opened("keyboard", at=many_address, width=width)
    playwright.expect(page.locator(".column")).to_have_count(3)  # and the two that differ most
    tops = page.evaluate(
        "[...document.querySelectorAll('.column')].map(c => ['h3', '.worth', 'ol'].map(part => "
        "[c.getBoundingClientRect().y, c.querySelector(part).getBoundingClientRect().y]))"
    )
    assert len({tuple(map(tuple, parts)) for parts in tops}) == len({parts[0][0] for parts in tops})
    page.goto(f"{many_address}#privacy?measure=learnt")
    playwright.expect(page.locator("#card")).to_contain_text(
        "Who is protected"
    )  # the page has its height, and width
    playwright.expect(page.locator("#trade-figure svg .name")).to_have_count(14)
    boxes = [name.bounding_box() for name in page.locator("#trade-figure svg .name").all()]
    assert not [(a, b) for at, a in enumerate(boxes) for b in boxes[:at] if overlap(a, b)]
    needed, there = page.evaluate(WIDTHS)
    assert needed <= there
    figure, section = (
        page.locator(place).bounding_box()["width"] for place in ("#trade-figure svg", "#privacy")
    )
    assert figure == section


def overlap(one, other):
    """Whether two boxes share more than an edge."""
    across, down = (
        min(one[at] + one[size], other[at] + other[size]) - max(one[at], other[at])
        for at, size in (("x", "width"), ("y", "height"))
    )
    return across > 1 and down > 8  # a box has a halo of 4 above and below


def test_intervals_that_leave_the_track_show_it(opened):
    page = opened("keyboard")
    page.get_by_label("Your text").fill("thank you ")
    playwright.expect(
        page.locator(".column").nth(1).locator(".word .beyond").first
    ).to_be_attached()
    assert page.locator(".column.public .beyond").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_no_choice_of_a_plan_is_cut_off(opened, width):
    page = opened("plan", width=width)
    playwright.expect(page.get_by_label("Private text is")).to_be_visible()
    room = """() => [...document.querySelectorAll('#plan select')].map((select) => {
      const style = getComputedStyle(select), pen = document.createElement('canvas').getContext('2d');
      pen.font = `${style.fontSize} ${style.fontFamily}`;
      const longest = Math.max(...[...select.options].map((option) => pen.measureText(option.text).width));
      return select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 18 - longest;
    })"""
    assert min(page.evaluate(room)) >= 0


CHANGE = {
    "ngram": "what are you doing after",
    "before": 0.0,
    "after": 3.8e-4,
    "change": "fell 12× (1–572)",
    "fdr": 0.06,
}


def test_a_phone_shows_what_changed_without_scrolling(opened):
    page = opened("keyboard", width=390)
    answer = {
        "summary": "1 changed.",
        "how_to_read": "How to read it.",
        "notes": [],
        "tables": {"Rose": [], "Fell": [CHANGE]},
    }
    page.route("**/api/changes*", lambda handed: handed.fulfill(json=answer))
    page.get_by_role("link", name="Changes").click()
    cells = page.locator("#changes-tables tbody td")
    playwright.expect(cells.nth(1)).to_have_text("fell 12× (1–572)")
    playwright.expect(cells.nth(2)).to_have_text("0%")
    playwright.expect(cells.nth(3)).to_have_text("0.038%")
    playwright.expect(page.locator("#changes-read")).to_have_text("How to read it.")
    after = cells.nth(3).bounding_box()
    assert after["x"] + after["width"] <= 390


LONG = "a-very-long-release-name-of-the-second-quarter-of-2026-after-the-migration-to-the-new-tokenizer-final"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_long_name_leaves_room_for_the_numbers(opened, address, width):
    page = opened("keyboard", width=width)

    def renamed(handed):
        told = handed.fetch().json()
        told["releases"][1]["name"] = LONG
        handed.fulfill(json=told)

    page.route("**/api/about", renamed)
    page.reload()
    playwright.expect(page.locator("#marked")).to_have_value(LONG)
    assert page.locator("#marked").bounding_box()["width"] <= 320
    assert len({box["x"] for box in map(box_of, page.locator(".column").all())}) == (
        2 if width == 390 else 4
    )
    page.get_by_role("link", name="Privacy").click()
    epsilon = (
        page.locator("#trade-table tbody tr")
        .nth(1)
        .locator("td")
        .nth(3 if width == 390 else 5)
        .bounding_box()
    )
    assert epsilon["x"] + epsilon["width"] <= width
    assert page.locator("#card-release").bounding_box()["width"] <= 26 * 16
    needed, there = page.evaluate(WIDTHS)
    assert needed <= there


def box_of(found):
    return found.bounding_box()


@pytest.mark.parametrize("width", [390, 1280])
def test_suggested_words_are_not_split(opened, many_address, width):
    page = opened("keyboard", at=many_address, width=width)
    playwright.expect(page.locator(".column")).to_have_count(3)
    word = {"word": "understanding", "probability": 0.123, "low": None, "high": None, "adds": None}
    columns = [{"name": "x", "words": [word]}] * 3
    page.route(
        "**/api/predict", lambda handed: handed.fulfill(json={"typed": "", "columns": columns})
    )
    page.get_by_label("Your text").fill("some ")
    playwright.expect(page.locator(".word bdi")).to_have_text(["understanding"] * 3)
    assert {box_of(found)["height"] < 30 for found in page.locator(".word bdi").all()} == {True}
    tracks = {round(box_of(found)["width"]) for found in page.locator(".word svg").all()}
    assert len(tracks) == 1  # one scale


def test_a_column_that_says_the_same_in_every_row_is_a_sentence(opened, weak_address):
    page = opened("privacy", at=weak_address)
    table = page.locator("#trade-table")
    playwright.expect(table).to_contain_text(
        "The same in every row: mechanism posterior, δ 1e-7, n-grams 147."
    )
    playwright.expect(table.locator("th")).to_have_text(
        ["release", "guarantee", "ε", "odds change at most"]
    )


def test_what_epsilon_means_comes_first(opened):
    page = opened("privacy")
    playwright.expect(page.locator("#privacy h3").first).to_contain_text("What ε means for eps-1")
    playwright.expect(page.locator("#card p").first).to_contain_text(
        "limits what anybody can learn"
    )


SHOW_ROOM = """() => [...document.querySelectorAll('main select')].filter((select) => select.offsetParent)
  .map((select) => {
    const style = getComputedStyle(select), pen = document.createElement('canvas').getContext('2d');
    pen.font = `${style.fontSize} ${style.fontFamily}`;
    const shown = pen.measureText(select.selectedOptions[0].text).width;
    return select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 18 - shown;
  })"""
CUT_OFF = """() => [...document.querySelectorAll('main .scroll, main figure, main .column')]
  .filter((part) => part.offsetParent && part.scrollWidth > part.clientWidth + 1)
  .map((part) => part.id || part.className)"""


@pytest.mark.parametrize("part", ["keyboard", "browse", "changes", "privacy", "plan"])
def test_a_phone_cuts_nothing_off(opened, many_address, part):
    page = opened(part, at=many_address, width=390)
    playwright.expect(page.locator(f"#{part} h2")).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert min(page.evaluate(SHOW_ROOM), default=0) >= 0
    assert page.evaluate(CUT_OFF) == []
    needed, there = page.evaluate(WIDTHS)
    assert needed <= there


def test_a_unit_breaks_where_there_is_no_room(opened, many_address):
    """A claim that names a long unit must not widen its column."""
    page = opened("keyboard", at=many_address, width=390)

    def renamed(handed):
        told = handed.fetch().json()
        for release in told["releases"]:
            release["claim"] = (
                "ε = 1, δ = 1e-07 for everything that a user wrote in a week (PROVED)"
            )
        handed.fulfill(json=told)

    page.route("**/api/about", renamed)
    page.reload()
    playwright.expect(page.locator(".column .claim").nth(1)).to_contain_text("for everything")
    assert page.evaluate(CUT_OFF) == []
    needed, there = page.evaluate(WIDTHS)
    assert needed <= there


def test_one_outlier_does_not_stretch_the_scale(opened):
    page = opened("keyboard", width=1280)
    row = {"ngram": "a b c", "before": 0.01, "after": 0.02, "interval": None, "discovered": False}
    rows = [{**row, "after": 0.01 + at / 1000, "clear": None} for at in range(20)]
    rows[3] = {**rows[3], "before": 1e-12}
    answer = {"total": 20, "rows": rows}
    page.route("**/api/ngrams*", lambda handed: handed.fulfill(json=answer))
    page.get_by_role("link", name="Browse").click()
    playwright.expect(page.locator("#ngrams tbody tr")).to_have_count(20)
    arrows = [line.locator(".beyond").count() for line in page.locator("#ngrams tbody tr").all()]
    assert arrows == [int(at == 3) for at in range(20)]
    dots = [dot.get_attribute("cx") for dot in page.locator("#ngrams circle.dot").all()]
    assert float(dots[-1].rstrip("%")) - float(dots[0].rstrip("%")) > 50
