"""The page in a real browser: what it does."""

import re
from pathlib import Path

import pytest

WRONG_WHOLE = ("0,5", "1,5", "1.5", "-3", "100.00", "1,000.000", "1.000,000", "1e-2")
LOST_WORDS = "The server does not answer. Is `bayesgram serve` still running?"
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
WIDTHS = "[document.documentElement.scrollWidth, window.innerWidth]"


def test_typing_gives_predictions_and_keys_put_them_in(opened):
    page = opened("keyboard")
    page.get_by_label("Your text").press_sequentially("Thank yo")
    words = page.locator(".column").nth(1).locator(".word bdi")
    playwright.expect(words).to_have_text(["you"])
    page.locator(".column").nth(1).get_by_role("radio").check()
    page.get_by_label("Your text").press("Alt+1")
    playwright.expect(page.get_by_label("Your text")).to_have_value("Thank you ")
    playwright.expect(words).to_have_count(5)
    playwright.expect(page.locator("#heard")).to_contain_text("eps-0.1: 1 ")
    assert page.locator(".column").count() == 4


def test_a_key_that_is_faster_than_the_answers_waits_for_the_last_one(opened):
    page = opened("keyboard")
    text = page.get_by_label("Your text")
    text.press_sequentially("Thank y")
    playwright.expect(page.locator(".column.chosen .word bdi")).to_have_text(["you"])
    page.evaluate(
        "() => { const ask = fetch; window.fetch = (...all) => new Promise((go) => "
        "setTimeout(go, 300)).then(() => ask(...all)); }"
    )
    text.press("o")
    text.press("Alt+1")
    playwright.expect(text).to_have_value("Thank you ")


def test_a_click_or_the_keyboard_alone_puts_a_word_in(opened):
    page = opened("keyboard")
    first = page.locator(".column").first.locator(".word").first
    word = first.locator("bdi").inner_text()
    first.focus()
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_label("Your text")).to_have_value(f"{word} ")
    playwright.expect(page.get_by_label("Your text")).to_be_focused()


def test_digits_are_typed(opened):
    page = opened("keyboard")
    text = page.get_by_label("Your text")
    playwright.expect(page.locator(".column").first.locator(".word")).to_have_count(5)
    text.press_sequentially("Call 12345 at 7 ")
    playwright.expect(text).to_have_value("Call 12345 at 7 ")
    text.press("Control+Alt+2")  # AltGr, which types characters on many keyboards
    playwright.expect(text).to_have_value("Call 12345 at 7 ")
    text.fill("thank ")
    playwright.expect(page.locator(".column.chosen .word bdi").first).to_have_text("you")
    text.press("Alt+1")
    playwright.expect(text).to_have_value("thank you ")


def test_what_is_written_comes_again_if_that_is_wished(opened):
    page = opened("keyboard")
    page.get_by_label("Your text").fill("zanzibar zanzibar. Thank you ")
    words = page.locator(".column").nth(1).locator(".word bdi")
    playwright.expect(words).to_have_count(5)
    playwright.expect(words.filter(has_text="zanzibar")).to_have_count(0)
    page.get_by_label("Also suggest words").check()
    playwright.expect(words.filter(has_text="zanzibar")).to_have_count(1)
    page.get_by_label("Also suggest words").uncheck()
    playwright.expect(words.filter(has_text="zanzibar")).to_have_count(0)


def test_browsing_sorts_and_turns_pages(opened):
    page = opened("browse")
    caption, rows = page.locator("#browse-caption"), page.locator("#ngrams tbody tr")
    playwright.expect(caption).to_have_text("1–25 of 69 n-grams")
    playwright.expect(rows).to_have_count(25)
    page.get_by_role("button", name="Next").click()
    playwright.expect(caption).to_have_text("26–50 of 69 n-grams")
    page.get_by_label("Length").select_option("1")
    playwright.expect(caption).to_have_text("1–12 of 12 n-grams")
    page.get_by_label("Sorted by").select_option("alphabet")
    playwright.expect(rows.first).to_contain_text("'quoted'")
    page.get_by_label("Contains").fill("nothing like it")
    playwright.expect(caption).to_have_text(
        "No n-gram of 1 word in eps-1 contains “nothing like it”."
    )


def test_two_releases_are_compared(opened):
    page = opened("changes")
    # Two that can be compared are shown at first; the third keeps no measurements and is not listed.
    playwright.expect(page.locator("#changes-told")).to_contain_text("were tested")
    playwright.expect(page.locator("#changes-first option")).to_have_text(["eps-0.1", "eps-1"])
    playwright.expect(page.locator("#changes-left")).to_contain_text("1 release is not listed")
    page.locator("#changes-first").select_option(index=1)
    playwright.expect(page.locator("#changes-told")).to_have_text("Choose two different releases.")
    page.locator("#changes-second").select_option(index=0)
    playwright.expect(page.locator("#changes-told")).to_contain_text("were tested")
    playwright.expect(page.locator("#changes-to-claim")).to_have_text("PROVED ε = 0.1, δ = 1e-07")
    playwright.expect(page.locator("#changes-trouble")).to_be_hidden()
    playwright.expect(page.locator("#changes-notes")).to_contain_text("Counts are clipped")
    playwright.expect(page.locator("#changes-tables")).to_contain_text("Words that")
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
    playwright.expect(page.locator("#trade-readout")).to_contain_text(
        "eps-0.1, ε = 0.1, δ = 1e-07 (PROVED)"
    )
    playwright.expect(page.locator("#card")).to_contain_text("Who is protected")
    page.locator("#card figure svg [tabindex]").last.focus()
    playwright.expect(page.locator("#card .readout")).to_contain_text("scaled down")


def test_a_plan_is_made(opened):
    page = opened("plan", width=360)
    playwright.expect(page.get_by_label("N-grams in the vocabulary")).to_have_value("69")
    page.get_by_label("Users", exact=True).fill("many")
    page.get_by_role("button", name="Simulate").click()
    playwright.expect(page.get_by_role("alert")).to_have_text(
        "Users: give a whole number, such as 10000 (not “many”)."
    )
    playwright.expect(page.get_by_label("Users", exact=True)).to_have_attribute(
        "aria-invalid", "true"
    )
    page.get_by_label("Users", exact=True).fill("100.000")  # a hundred thousand, and not a hundred
    page.get_by_role("button", name="Simulate").click()
    playwright.expect(page.locator("[aria-invalid]")).to_have_count(0)
    playwright.expect(page.locator("#plan-figure svg")).to_be_visible()
    needed, there = page.evaluate(WIDTHS)  # with the button that stops it
    assert needed <= there
    playwright.expect(page.locator("#plan-sentence")).to_contain_text("(3 simulated releases: ")
    playwright.expect(page.locator("#plan-sentence")).to_contain_text(
        "With 100,000 users who write 0.23 n-grams"
    )
    playwright.expect(page.locator("#plan-stop")).to_be_hidden()
    playwright.expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_label("ε", exact=True).fill("1,500")
    page.get_by_role("button", name="Simulate").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("1,500 may be 1.5 or 1500")
    playwright.expect(page.locator("#plan-figure svg")).to_have_count(
        0
    )  # it answered another question


def test_a_plan_asked_for_at_once_waits_until_the_size_of_the_vocabulary_is_known(opened):
    page, held = opened("keyboard"), []
    playwright.expect(page.locator(".column")).to_have_count(4)
    page.route(
        "**/api/plan",
        lambda asked: held.append(asked) if asked.request.method == "GET" else asked.continue_(),
    )
    page.get_by_role("link", name="Plan").click()
    page.get_by_role("button", name="Simulate").click()
    playwright.expect(page.locator("#plan-stop")).to_be_visible()
    held[0].continue_()
    playwright.expect(page.locator("#plan-sentence")).to_contain_text("simulated release")
    playwright.expect(page.get_by_role("alert")).to_be_hidden()
    playwright.expect(page.locator("#plan-stop")).to_be_hidden()


def test_a_plan_can_be_stopped(opened):
    page = opened("plan")
    playwright.expect(page.get_by_label("N-grams in the vocabulary")).to_have_value("69")
    page.route("**/api/plan", lambda _: None)  # no answer comes
    page.get_by_role("button", name="Simulate").click()
    playwright.expect(page.locator("#plan-sentence")).to_have_text("Simulating …")
    page.get_by_role("button", name="Stop").click()
    playwright.expect(page.locator("#plan-stop")).to_be_hidden()
    playwright.expect(page.locator("#plan-sentence")).to_have_text("")
    playwright.expect(page.get_by_role("alert")).to_be_hidden()


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
    assert all(
        isinstance(told, str)
        for told in page.evaluate(read, [[text, True] for text in WRONG_WHOLE])
    )


def test_a_reload_keeps_what_is_shown(opened):
    page = opened("browse")
    caption, rows = page.locator("#browse-caption"), page.locator("#ngrams tbody tr")
    page.locator("#browse-release").select_option(label="eps-0.1")
    playwright.expect(page.locator("#browse-claim")).to_have_text("PROVED ε = 0.1, δ = 1e-07")
    playwright.expect(caption).to_contain_text("of 69")
    page.get_by_label("Contains").fill("all")
    fewer = re.compile(
        r"^1–25 of (?!69 )\d+ n-grams$"
    )  # what is typed is asked for a little later, from page 1 on
    playwright.expect(caption).to_have_text(fewer)
    page.get_by_role("button", name="release").click()
    playwright.expect(page.locator("#ngrams th[aria-sort]")).to_contain_text("release")
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


def test_a_plan_that_is_only_typed_outlives_a_look_elsewhere(opened):
    page = opened("plan")
    playwright.expect(page.get_by_label("N-grams in the vocabulary")).to_have_value("69")
    page.get_by_label("Users", exact=True).fill("20 000")
    page.get_by_label("Private text is").select_option("very different")
    page.get_by_role("link", name="Keyboard").click()
    page.go_back()
    playwright.expect(page.get_by_label("Users", exact=True)).to_have_value("20 000")
    page.reload()
    playwright.expect(page.get_by_label("Users", exact=True)).to_have_value("20 000")
    playwright.expect(page.get_by_label("Private text is")).to_have_value("2.6")


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
    page.context.grant_permissions(
        ["clipboard-read", "clipboard-write"], origin=address.rstrip("/")
    )
    playwright.expect(page.locator("#browse-caption")).to_have_text("1–25 of 69 n-grams")
    page.get_by_role("button", name="Copy these 25 rows").click()
    playwright.expect(page.locator("#taken")).to_have_text(
        "Copied 25 rows. You can paste them as a table."
    )
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
    text.press("Alt+1")
    playwright.expect(text).to_have_value("thank you much")
    assert text.evaluate("text => text.selectionStart") == len("thank you ")
    text.press("Control+z")
    playwright.expect(text).to_have_value("thank yo much")


def test_a_lost_server_is_said_below_the_text_and_suggests_nothing(opened):
    page = opened("keyboard")
    words = page.locator(".word")
    playwright.expect(words.first).to_be_visible()
    page.route("**/api/predict", lambda handed: handed.abort())
    page.get_by_label("Your text").fill("thank ")
    alert = page.get_by_role("alert")
    playwright.expect(alert).to_have_text(LOST_WORDS)
    playwright.expect(words).to_have_count(0)
    below, above = (
        page.locator(place).bounding_box()["y"] for place in ("#keyboard-trouble", "#text")
    )
    assert 0 < below - above < 150
    page.unroute("**/api/predict")
    playwright.expect(words.first).to_be_visible()  # it asks again by itself
    playwright.expect(alert).to_be_hidden()


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
    card, alert = (
        page.locator(place).bounding_box()["y"] for place in ("#card-release", "#card-trouble")
    )
    assert 0 < alert - card < 100
    page.unroute("**/api/**")
    playwright.expect(page.locator("#card")).to_contain_text("Who is protected")
    playwright.expect(page.locator("#trade-figure svg").first).to_be_visible()
    page.get_by_role("link", name="Changes").click()
    playwright.expect(page.locator("#changes-told")).to_contain_text("were tested")
    page.get_by_role("link", name="Browse").click()
    playwright.expect(caption).to_have_text("26–50 of 69 n-grams")
    page.get_by_role("button", name="Previous").click()
    playwright.expect(caption).to_have_text("1–25 of 69 n-grams")
    playwright.expect(page.get_by_role("alert")).to_have_count(0)


def test_browse_reads_odd_addresses_and_apostrophes(opened, address):
    page = opened("browse?page=1e99")
    caption = page.locator("#browse-caption")
    playwright.expect(caption).to_have_text("51–69 of 69 n-grams")
    page.get_by_label("Length").select_option("1")
    page.get_by_label("Contains").fill("’quoted’")
    playwright.expect(caption).to_have_text("1 n-gram")
    page.get_by_label("Contains").fill("")
    playwright.expect(caption).to_have_text("1–12 of 12 n-grams")
    page.get_by_label("Length").select_option("3")
    playwright.expect(caption).to_have_text("1–25 of 69 n-grams")
    page.get_by_role("button", name="Next").click()
    playwright.expect(caption).to_have_text("26–50 of 69 n-grams")
    assert 0 <= page.locator("#ngrams").bounding_box()["y"] < 400


def test_a_plan_starts_from_the_release_that_is_open(opened):
    page = opened("browse")
    playwright.expect(page.locator("#browse-release option:checked")).to_have_text("eps-1")
    page.locator("#browse-release").select_option(label="eps-0.1")
    page.get_by_role("link", name="Plan").click()
    playwright.expect(page.get_by_label("Start from")).to_have_value("0")
    playwright.expect(page.get_by_label("ε", exact=True)).to_have_value("0.1")
    playwright.expect(page.get_by_label("Users", exact=True)).to_have_value("1,300")  # noisy
    page.get_by_role("link", name="Privacy").click()
    playwright.expect(page.locator("#card h3").first).to_contain_text("eps-0.1")
    page.locator("#card-release").select_option(label="eps-1")
    page.get_by_role("link", name="Plan").click()
    playwright.expect(page.get_by_label("ε", exact=True)).to_have_value("1")
    page.get_by_label("ε", exact=True).fill("2")
    page.get_by_label("ε", exact=True).blur()
    playwright.expect(page.get_by_label("Start from")).to_have_value("own")
    page.reload()
    playwright.expect(page.get_by_label("ε", exact=True)).to_have_value("2")
    playwright.expect(page.get_by_label("Start from")).to_have_value("own")
