"""The page in a real browser: Debian's Chromium, driven by Playwright; skipped where either is missing."""

import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn

from bayesgram.web.api import build
from bayesgram.web.guard import AccessPolicy
from catalogues import IMAGE, SCRIPT, catalogue, many_releases, releases_of_sources, weak_releases

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = Path("/usr/bin/chromium")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium")
LOST = "Failed to load resource: net::ERR_FAILED"  # what a browser says of a server that is gone
WIDTHS = "[document.documentElement.scrollWidth, window.innerWidth]"


def serve(shown):
    """The page of a catalogue, at an address of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        build(shown, AccessPolicy()), log_config=None, log_level="critical", lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)
    listening.close()


@pytest.fixture(scope="module")
def address():
    yield from serve(catalogue())


@pytest.fixture(scope="module")
def weak_address():
    yield from serve(catalogue(made=weak_releases))


@pytest.fixture(scope="module")
def sources_address():
    yield from serve(catalogue(made=releases_of_sources))


@pytest.fixture(scope="module")
def many_address():
    yield from serve(catalogue(made=many_releases))


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, "--disable-sync", "--no-first-run"])
        yield running
        running.close()


@pytest.fixture
def opened(browser, address):
    """Opens a part of the page; whatever it opened must have stayed on this machine and complained of nothing."""
    asked, complaints, contexts = [], [], []

    def route(handed):
        asked.append(urlsplit(handed.request.url).hostname)
        handed.continue_()

    def open_part(part, *, width=1200, scheme="light", at=address):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        context.route("**/*", route)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.goto(f"{at}#{part}")
        return page

    yield open_part
    for context in contexts:
        context.close()
    assert set(asked) <= {"127.0.0.1"}
    assert [told for told in complaints if told != LOST] == []


def test_typing_gives_predictions_and_keys_put_them_in(opened):
    page = opened("keyboard")
    page.get_by_label("Your text").press_sequentially("Thank yo")
    words = page.locator(".column").nth(1).locator(".word bdi")
    playwright.expect(words).to_have_text(["you"])
    page.locator(".column").nth(1).get_by_role("radio").check()
    page.get_by_label("Your text").press("1")
    playwright.expect(page.get_by_label("Your text")).to_have_value("Thank you ")
    playwright.expect(words).to_have_count(5)
    playwright.expect(page.locator("#heard")).to_contain_text("eps-0.1: 1 ")
    assert page.locator(".column").count() == 4


def test_a_click_or_the_keyboard_alone_puts_a_word_in(opened):
    page = opened("keyboard")
    first = page.locator(".column").first.locator(".word").first
    word = first.locator("bdi").inner_text()
    first.focus()
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_label("Your text")).to_have_value(f"{word} ")
    playwright.expect(page.get_by_label("Your text")).to_be_focused()
    page.get_by_label("The keys").uncheck()
    page.get_by_label("Your text").press_sequentially("12")
    playwright.expect(page.get_by_label("Your text")).to_have_value(f"{word} 12")


def test_what_is_written_comes_again_if_that_is_wished(opened):
    page = opened("keyboard")
    page.get_by_label("Your text").fill("zanzibar zanzibar. Thank you ")
    words = page.locator(".column").nth(1).locator(".word bdi")
    playwright.expect(words).to_have_count(5)
    playwright.expect(words.filter(has_text="zanzibar")).to_have_count(0)
    page.get_by_label("Expect again").check()
    playwright.expect(words.filter(has_text="zanzibar")).to_have_count(1)
    page.get_by_label("Expect again").uncheck()
    playwright.expect(words.filter(has_text="zanzibar")).to_have_count(0)


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
    playwright.expect(page.locator("#card h4")).to_contain_text(f"k {SCRIPT}")


@pytest.mark.parametrize("width", [390, 1280])
def test_the_card_says_which_public_text_people_write_like(opened, sources_address, width):
    page = opened("privacy", at=sources_address, width=width)
    card = page.locator("#card")
    playwright.expect(card).to_contain_text("Your people write like reviews (60% ± 1) and talk (34% ± 1)")
    marks = card.get_by_role("group", name="Weights of the public sources").get_by_role("img")
    playwright.expect(marks).to_have_count(6)
    assert [mark.get_attribute("aria-label") for mark in marks.all()][::3] == [
        *("reviews, order 3: 60% ± 1.", "talk, order 1: 50% ± 1.")
    ]
    marks.nth(2).focus()
    playwright.expect(card.get_by_role("status").first).to_have_text("wiki, order 3: 6% ± 1.")
    seen, room = page.evaluate(WIDTHS)
    assert seen <= room
    page.locator("#card-release").select_option("1")
    playwright.expect(card).to_contain_text("Too noisy to say which public text your people write like.")
    page.locator("#card-release").select_option("2")
    playwright.expect(card).to_contain_text("How many users were clipped")
    playwright.expect(card).not_to_contain_text("write like")


def test_browsing_sorts_and_turns_pages(opened):
    page = opened("browse")
    caption, rows = page.locator("#browse-caption"), page.locator("#ngrams tbody tr")
    playwright.expect(caption).to_have_text("1–25 of 69 n-grams")
    playwright.expect(rows).to_have_count(25)
    page.get_by_role("button", name="Next").click()
    playwright.expect(caption).to_have_text("26–50 of 69 n-grams")
    page.get_by_label("Words").select_option("1")
    playwright.expect(caption).to_have_text("1–12 of 12 n-grams")
    page.get_by_label("Sorted by").select_option("alphabet")
    playwright.expect(rows.first).to_contain_text("'quoted'")
    page.get_by_label("Contains").fill("nothing like it")
    playwright.expect(caption).to_have_text("No n-gram of 1 word in eps-1 contains “nothing like it”.")


def test_two_releases_are_compared(opened):
    page = opened("changes")
    playwright.expect(page.locator("#changes-told")).to_contain_text("n-grams were tested", timeout=30_000)
    playwright.expect(page.locator("#changes-notes")).to_contain_text("posteriors are compared")
    page.locator("#changes-first").select_option(index=2)
    playwright.expect(page.locator("#changes-told")).to_have_text("Choose two releases that differ.")
    page.locator("#changes-first").select_option(index=1)
    playwright.expect(page.locator("#changes-told")).to_contain_text("n-grams were tested", timeout=30_000)
    page.locator("#changes-second").select_option(index=0)
    page.reload()
    playwright.expect(page.locator("#changes-first")).to_have_value("1")
    playwright.expect(page.locator("#changes-second")).to_have_value("0")
    page.goto(page.url.replace("from=eps-1", "from=gone"))  # no such release
    playwright.expect(page.locator("#changes-first")).to_have_value("0")


def test_the_trade_off_is_read_by_keyboard(opened):
    page = opened("privacy")
    dots = page.locator("#trade-figure svg [tabindex]")
    playwright.expect(dots).to_have_count(2)
    dots.first.focus()
    playwright.expect(page.locator("#trade-readout")).to_contain_text("eps-0.1, ε = 0.1, δ = 1e-07 (PROVED)")
    playwright.expect(page.locator("#card")).to_contain_text("Who is protected")
    page.locator("#card figure svg [tabindex]").last.focus()
    playwright.expect(page.locator("#card .readout")).to_contain_text("scaled down")


def test_a_plan_is_made(opened):
    page = opened("plan", width=360)
    playwright.expect(page.get_by_label("N-grams in the vocabulary")).to_have_value("69")
    page.get_by_label("Users", exact=True).fill("many")
    page.get_by_role("button", name="Simulate").click()
    playwright.expect(page.get_by_role("alert")).to_have_text("Users: give a whole number, such as 10000 (not “many”).")
    playwright.expect(page.get_by_label("Users", exact=True)).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Users", exact=True).fill("100.000")  # a hundred thousand, and not a hundred
    page.get_by_role("button", name="Simulate").click()
    playwright.expect(page.locator("[aria-invalid]")).to_have_count(0)
    playwright.expect(page.locator("#plan-figure svg")).to_be_visible(timeout=30_000)
    needed, there = page.evaluate(WIDTHS)  # with the button that stops it
    assert needed <= there
    playwright.expect(page.locator("#plan-sentence")).to_contain_text("in 3 simulated releases", timeout=30_000)
    playwright.expect(page.locator("#plan-sentence")).to_contain_text("For 100,000 users who write 8 n-grams")
    playwright.expect(page.locator("#plan-stop")).to_be_hidden(timeout=30_000)
    playwright.expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_label("ε", exact=True).fill("1,500")
    page.get_by_role("button", name="Simulate").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("1,500 may be 1.5 or 1500")
    playwright.expect(page.locator("#plan-figure svg")).to_have_count(0)  # it answered another question


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
    playwright.expect(page.locator(".column .claim").nth(2)).to_have_text("posterior · ε = 100, δ = 1e-07")
    page.get_by_role("link", name="Privacy").click()
    playwright.expect(page.locator("#trade-table .grade")).to_have_text(["weak", "worthless"])
    page.locator("#card-release").select_option("1")
    playwright.expect(page.locator("#card .warning")).to_have_text(
        ["Worthless: ε = 100 allows odds to change by a factor of 2.7e+43: PROVED, and it protects nobody."]
    )
    needed, there = page.evaluate(WIDTHS)
    assert needed <= there
    page.get_by_role("link", name="Plan").click()
    page.get_by_label("δ", exact=True).fill("0.5")
    page.get_by_role("button", name="Simulate").click()
    playwright.expect(page.locator("#plan-warnings .warning")).to_contain_text("a chance of 1 in 2", timeout=30_000)
    page.locator("#plan-stop").click()


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
    playwright.expect(page.get_by_role("link", name="Keyboard")).to_have_attribute("aria-current", "page")
    unnamed = "[...document.querySelectorAll('input, select, textarea')].filter(e => !e.labels.length).map(e => e.id)"
    assert page.evaluate(unnamed) == []
    page.keyboard.press("Tab")
    playwright.expect(page.get_by_text("Skip to the page")).to_be_focused()
    playwright.expect(page).to_have_title("Keyboard – Bayesgram")


WRONG_WHOLE = ("0,5", "1,5", "1.5", "-3", "100.00", "1,000.000", "1.000,000", "1e-2")


def test_numbers_are_read_as_people_type_them(opened):
    page = opened("plan")
    read = """async (cases) => {
      const { typedNumber } = await import("/numbers.js");
      const one = ([text, whole]) => { try { return typedNumber("ε", text, { whole }); } catch (e) { return e.message; } };
      return cases.map(one);
    }"""
    numbers = {
        "0,5": 0.5,
        "0.5": 0.5,
        ",5": 0.5,
        "1e-7": 1e-7,
        "1e−7": 1e-7,
        "2,5e-7": 2.5e-7,
        "1,5": 1.5,
        "0,500": 0.5,
    }
    numbers |= {"1,000,000": 1e6, "1 000.5": 1000.5, "1'000": 1000, "12,34": 12.34}
    assert page.evaluate(read, [[text, False] for text in numbers]) == list(numbers.values())
    whole = {"1,000,000": 1_000_000, "20 000": 20_000, "1e6": 1_000_000, "1,500": 1500, "7": 7}
    whole |= {"100.000": 100_000, "1.000.000": 1_000_000, "1.500": 1500}
    assert page.evaluate(read, [[text, True] for text in whole]) == list(whole.values())
    doubtful, *wrong = page.evaluate(
        read, [["1,500", False], *([text, False] for text in ("", "5%", "1,2,3", "1.2.3"))]
    )
    assert doubtful == "ε: 1,500 may be 1.5 or 1500; write it without the comma."
    assert all(told.startswith("ε: give a number, such as 0.5 or 1e-7") for told in wrong)
    assert all(isinstance(told, str) for told in page.evaluate(read, [[text, True] for text in WRONG_WHOLE]))


def test_a_reload_keeps_what_is_shown(opened):
    page = opened("browse")
    caption, rows = page.locator("#browse-caption"), page.locator("#ngrams tbody tr")
    page.locator("#browse-release").select_option(label="eps-0.1 · ε = 0.1 (PROVED)")
    page.get_by_label("Contains").fill("all")
    playwright.expect(caption).not_to_contain_text("of 69")
    page.get_by_role("button", name="released").click()
    playwright.expect(page.locator("#ngrams th[aria-sort]")).to_contain_text("released")
    page.get_by_role("button", name="Next").click()
    playwright.expect(caption).to_contain_text("26–")
    kept = caption.inner_text(), rows.first.inner_text()
    page.reload()
    playwright.expect(caption).to_have_text(kept[0])
    playwright.expect(page.get_by_label("Contains")).to_have_value("all")
    playwright.expect(page.get_by_label("Sorted by")).to_have_value("probability")
    assert rows.first.inner_text() == kept[1]
    page.get_by_role("link", name="Keyboard").click()
    page.go_back()
    playwright.expect(caption).to_have_text(kept[0])


def test_headings_sort_either_way(opened):
    page = opened("browse")
    header, cells = page.locator("#ngrams th").first, page.locator("#ngrams tbody td:first-child")
    header.get_by_role("button").click()
    playwright.expect(header).to_have_attribute("aria-sort", "ascending")
    playwright.expect(cells.first).to_contain_text("for 'quoted' all")
    header.get_by_role("button").click()
    playwright.expect(header).to_have_attribute("aria-sort", "descending")
    playwright.expect(cells.first).to_contain_text("you")
    change = page.locator("#ngrams th", has_text="change")
    change.get_by_role("button").click()
    playwright.expect(page.get_by_label("Sorted by")).to_have_value("lifted")
    page.locator("#ngrams th", has_text="change").get_by_role("button").click()
    playwright.expect(page.get_by_label("Sorted by")).to_have_value("lowered")


def test_rows_are_copied_and_downloaded(opened, address):
    page = opened("browse")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address.rstrip("/"))
    playwright.expect(page.locator("#browse-caption")).to_have_text("1–25 of 69 n-grams")
    page.get_by_role("button", name="Copy these 25 rows").click()
    playwright.expect(page.locator("#taken")).to_have_text("Copied 25 rows, to be pasted as a table.")
    head, *rows = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert (head, len(rows)) == ("ngram\tpublic\tprobability\tlow\thigh", 25)
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == "eps-1.csv"
    assert len(Path(download.value.path()).read_text(encoding="utf-8").splitlines()) == 70


def test_a_word_is_put_in_at_the_caret_and_can_be_undone(opened):
    page = opened("keyboard")
    text = page.get_by_label("Your text")
    text.fill("thank yo much")
    for _ in range(5):
        text.press("ArrowLeft")
    playwright.expect(page.locator(".column.chosen .word bdi")).to_have_text(["you"])
    text.press("1")
    playwright.expect(text).to_have_value("thank you much")
    assert text.evaluate("text => text.selectionStart") == len("thank you ")
    text.press("Control+z")
    playwright.expect(text).to_have_value("thank yo much")


def test_the_best_proved_column_is_marked_and_another_is_two_tabs_away(opened):
    page = opened("keyboard")
    playwright.expect(page.locator(".column.chosen h3")).to_contain_text("eps-1")
    page.get_by_label("Your text").focus()
    for _ in range(2):
        page.keyboard.press("Tab")
    playwright.expect(page.locator("#marked")).to_be_focused()
    page.keyboard.press("ArrowUp")
    playwright.expect(page.locator(".column.chosen h3")).to_contain_text("eps-0.1")
    page.reload()
    playwright.expect(page.locator(".column.chosen h3")).to_contain_text("eps-0.1")


def test_a_lost_server_is_said_below_the_text_and_suggests_nothing(opened):
    page = opened("keyboard")
    words = page.locator(".word")
    playwright.expect(words.first).to_be_visible()
    page.route("**/api/predict", lambda handed: handed.abort())
    page.get_by_label("Your text").fill("thank ")
    alert = page.get_by_role("alert")
    playwright.expect(alert).to_have_text("The server doesn't answer. Is `bayesgram serve` still running?")
    playwright.expect(words).to_have_count(0)
    below, above = (page.locator(place).bounding_box()["y"] for place in ("#keyboard-trouble", "#text"))
    assert 0 < below - above < 150
    page.unroute("**/api/predict")
    playwright.expect(words.first).to_be_visible(timeout=10_000)  # it asks again by itself
    playwright.expect(alert).to_be_hidden()


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
    playwright.expect(page.locator("#ngrams tbody circle.mute").first).to_be_visible()
    assert page.locator("#ngrams tbody circle.good").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_many_releases_have_room(opened, many_address, width):
    page = opened("keyboard", at=many_address, width=width)
    playwright.expect(page.locator(".column")).to_have_count(5)  # public text and the best four
    tops = page.evaluate(
        "[...document.querySelectorAll('.column')].map(c => ['h3', '.worth', 'ol'].map(part => "
        "[c.getBoundingClientRect().y, c.querySelector(part).getBoundingClientRect().y]))"
    )
    assert len({tuple(map(tuple, parts)) for parts in tops}) == len({parts[0][0] for parts in tops})
    page.goto(f"{many_address}#privacy?measure=learnt")
    playwright.expect(page.locator("#trade-figure svg .name")).to_have_count(14)
    boxes = [name.bounding_box() for name in page.locator("#trade-figure svg .name").all()]
    assert not [(a, b) for at, a in enumerate(boxes) for b in boxes[:at] if overlap(a, b)]
    needed, there = page.evaluate(WIDTHS)
    assert needed <= there
    figure, section = (page.locator(place).bounding_box()["width"] for place in ("#trade-figure svg", "#privacy"))
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
    playwright.expect(page.locator(".column").nth(1).locator(".word .beyond").first).to_be_attached()
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


LOST_WORDS = "The server doesn't answer. Is `bayesgram serve` still running?"


def test_every_part_says_that_the_server_is_lost_and_recovers(opened):
    page = opened("browse")
    caption = page.locator("#browse-caption")
    playwright.expect(caption).to_have_text("1–25 of 69 n-grams")
    page.route("**/api/**", lambda handed: handed.abort())
    page.get_by_role("button", name="Next").click()
    playwright.expect(page.get_by_role("alert")).to_have_text([LOST_WORDS])
    playwright.expect(page.get_by_role("button", name="Next")).to_be_enabled()
    for part, places in (("changes", ["changes"]), ("privacy", ["privacy", "card"])):
        page.evaluate("part => { location.hash = part; }", part)
        playwright.expect(page.get_by_role("alert")).to_have_text([LOST_WORDS] * len(places))
        for place in places:
            playwright.expect(page.locator(f"#{place}-trouble")).to_be_visible()
    card, alert = (page.locator(place).bounding_box()["y"] for place in ("#card-release", "#card-trouble"))
    assert 0 < alert - card < 100
    page.unroute("**/api/**")
    playwright.expect(page.locator("#card")).to_contain_text("Who is protected", timeout=10_000)
    playwright.expect(page.locator("#trade-figure svg").first).to_be_visible(timeout=10_000)
    page.get_by_role("link", name="Changes").click()
    playwright.expect(page.locator("#changes-told")).to_contain_text("n-grams were tested", timeout=10_000)
    page.get_by_role("link", name="Browse").click()
    playwright.expect(caption).to_have_text("26–50 of 69 n-grams", timeout=10_000)
    page.get_by_role("button", name="Previous").click()
    playwright.expect(caption).to_have_text("1–25 of 69 n-grams")
    playwright.expect(page.get_by_role("alert")).to_have_count(0)


CHANGE = {
    "ngram": "what are you doing after",
    "before": 0.0,
    "after": 3.8e-4,
    "change": "fell 12× (1–572)",
    "fdr": 0.06,
}


def test_a_phone_shows_what_changed_without_scrolling(opened):
    page = opened("keyboard", width=390)
    answer = {"told": "1 changed.", "read": "How to read it.", "notes": [], "tables": {"Rose": [], "Fell": [CHANGE]}}
    page.route("**/api/changes*", lambda handed: handed.fulfill(json=answer))
    page.get_by_role("link", name="Changes").click()
    cells = page.locator("#changes-tables tbody td")
    playwright.expect(cells.nth(1)).to_have_text("fell 12× (1–572)")
    playwright.expect(cells.nth(2)).to_have_text("0")
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
    assert page.locator("#marked").bounding_box()["width"] <= 256
    assert len({box["x"] for box in map(box_of, page.locator(".column").all())}) == (2 if width == 390 else 4)
    page.get_by_role("link", name="Privacy").click()
    epsilon = page.locator("#trade-table tbody tr").nth(1).locator("td").nth(3 if width == 390 else 6).bounding_box()
    assert epsilon["x"] + epsilon["width"] <= width
    assert page.locator("#card-release").bounding_box()["width"] <= 26 * 16
    needed, there = page.evaluate(WIDTHS)
    assert needed <= there


def box_of(found):
    return found.bounding_box()


@pytest.mark.parametrize("width", [390, 1280])
def test_suggested_words_are_not_split(opened, many_address, width):
    page = opened("keyboard", at=many_address, width=width)
    playwright.expect(page.locator(".column")).to_have_count(5)
    word = {"word": "understanding", "probability": 0.123, "low": None, "high": None, "adds": None}
    columns = [{"name": "x", "words": [word]}] * 5
    page.route("**/api/predict", lambda handed: handed.fulfill(json={"typed": "", "columns": columns}))
    page.get_by_label("Your text").fill("some ")
    playwright.expect(page.locator(".word bdi")).to_have_text(["understanding"] * 5)
    assert {box_of(found)["height"] < 30 for found in page.locator(".word bdi").all()} == {True}
    tracks = {round(box_of(found)["width"]) for found in page.locator(".word svg").all()}
    assert len(tracks) == 1  # one scale


def test_browse_reads_odd_addresses_and_apostrophes(opened, address):
    page = opened("browse?page=1e99")
    caption = page.locator("#browse-caption")
    playwright.expect(caption).to_have_text("51–69 of 69 n-grams")
    page.get_by_label("Words").select_option("1")
    page.get_by_label("Contains").fill("’quoted’")
    playwright.expect(caption).to_have_text("1 n-gram")
    page.get_by_label("Contains").fill("")
    playwright.expect(caption).to_have_text("1–12 of 12 n-grams")
    page.get_by_label("Words").select_option("3")
    playwright.expect(caption).to_have_text("1–25 of 69 n-grams")
    page.get_by_role("button", name="Next").click()
    playwright.expect(caption).to_have_text("26–50 of 69 n-grams")
    assert 0 <= box_of(page.locator("#ngrams"))["y"] < 400
