"""Pages in a browser: real clicks and keys, on a desktop and on a phone, with hostile data."""

import shutil
import threading
import time

import pytest

from mlestruct.datasets import make_people
from mlestruct.linkage import RecordLinker
from mlestruct.linkage.answer_file import AnswerFile
from mlestruct.linkage.known import KnownRows
from mlestruct.linkage.page import links_page as page_of_links
from mlestruct.linkage.review import EVERY, Review
from mlestruct.linkage.review_server import ReviewServer

webdriver = pytest.importorskip("selenium.webdriver", reason="the extra 'browser' is missing")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium and chromedriver are missing"),
    pytest.mark.xdist_group("browser"),
]
ATTACK = """<img src=x onerror="document.title='owned'"></script><script>document.title='owned'"""
FORMULA = "=HYPERLINK(1)"
DESKTOP, PHONE = (1200, 900), (390, 844)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (
        "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
        "disable-background-networking", "disable-component-update", "disable-sync",
        f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def links_page(tmp_path_factory):
    left, right, links = make_people(60, random_state=0)
    left.loc[left.index[:5], "street"] = ATTACK
    left = left.rename(index={"a0": ATTACK, "a1": FORMULA})
    links = links.replace({"left": {"a0": ATTACK, "a1": FORMULA}})
    linker = RecordLinker().fit(left, right, links.iloc[:30])
    file = tmp_path_factory.mktemp("page") / "links.html"
    file.write_text(page_of_links(linker, linker.link(left, right), left, right, ATTACK))
    return file.as_uri()


def find(browser, selector):
    return browser.find_elements("css selector", selector)


def log(browser):
    return [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]]


def show(browser, address, size, scheme):
    """Open a page on a screen of a size, light or dark."""
    settings = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", settings)
    metrics = dict(zip(("width", "height"), size, strict=True))
    metrics |= {"deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(address)


def check_looks(browser, size, scheme):
    """No errors, no scrolling sideways, dark on light or light on dark."""
    assert log(browser) == []
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= size[0]
    ink, paper = (
        browser.execute_script(f"return getComputedStyle(document.body).{name}")
        for name in ("color", "backgroundColor")
    )
    dark = [sum(map(int, colour[4:-1].split(","))) for colour in (ink, paper)]
    assert (dark[0] < dark[1]) == (scheme == "light")


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_errors_no_requests_no_sideways_scrolling(browser, links_page, size, scheme):
    show(browser, links_page, size, scheme)
    assert browser.title == "Links between two tables"  # nothing of ATTACK ran
    loaded = browser.execute_script("return performance.getEntriesByType('resource').length")
    assert loaded == 0
    check_looks(browser, size, scheme)


def test_search_click_and_keys(browser, links_page):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    browser.get(links_page)
    assert len(find(browser, "#list button")) == 60
    third = find(browser, "#list button")[2]
    third.click()
    name = third.find_element("css selector", "span").text
    assert find(browser, "#detail h3")[0].text.startswith(name)
    assert [b.text for b in find(browser, "[aria-current=true]")] == [third.text]
    third.send_keys(keys.ARROW_DOWN)
    fourth = find(browser, "#list button")[3]
    assert fourth.get_attribute("aria-current") == "true"
    card = find(browser, "#detail details")[0]
    opened = card.get_attribute("open")
    card.find_element("css selector", "summary").click()
    assert card.get_attribute("open") != opened
    search = find(browser, "#search")[0]
    search.send_keys(FORMULA)
    assert find(browser, "#count")[0].text == "1 records"
    assert find(browser, "#detail h3")[0].text.startswith(FORMULA)
    search.clear()
    search.send_keys("onerror")
    assert find(browser, "#detail h3")[0].text != ""
    assert find(browser, "#detail img") == []
    assert browser.title == "Links between two tables"
    search.clear()
    search.send_keys("b17")  # of the right table
    assert "b17" in [one.text for one in find(browser, "#detail summary b")]
    search.clear()
    search.send_keys("nothing like it")
    assert find(browser, "#detail")[0].text == "Nothing found."


def test_the_steps_of_a_waterfall_end_at_the_score(browser, links_page):
    browser.get(links_page)
    table = find(browser, ".candidate[open] table.waterfall")[0]
    cells = [row.find_elements("css selector", "td")[-1].text for row in
             table.find_elements("css selector", "tr")]  # fmt: skip
    steps = [float(cell.replace("\N{MINUS SIGN}", "-")) for cell in cells]
    assert sum(steps[:-1]) == pytest.approx(steps[-1], abs=0.05 * len(steps))
    assert cells[0] != ""


# ---------------------------------------------------------------------- review
@pytest.fixture
def review(tmp_path):
    """A review of tables with hostile cells and ids, on a server."""
    left, right, _ = make_people(
        100, household=0.6, errors=0.25, missing=0.1, overlap=0.7, random_state=0
    )
    left["street"], right["town"] = ATTACK, FORMULA
    left = left.rename(index={key: key + ATTACK for key in left.index})
    answers = AnswerFile(str(tmp_path / "answers.csv"))
    found = Review(left, right, answers, KnownRows([]), RecordLinker)
    found.learn()
    server = ReviewServer(found, "mlestruct link")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stop = found.start()
    found.address = server.address
    yield found
    server.shutdown()
    server.server_close()
    stop()


def until(condition):
    """Wait for what the page does."""
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


def press(browser, key, review, n_rows):
    """Press a key; the file then has so many rows, and the page their number."""
    find(browser, "body")[0].send_keys(key)
    until(lambda: len(review.answers.read()) == n_rows)
    said = sum(review.answers.read()["checked"] != "")
    until(lambda: find(browser, "#answered")[0].text.startswith(f"{said} "))


def question(browser):
    until(lambda: find(browser, "#pair thead th"))
    return tuple(find(browser, "#pair thead th")[k].text for k in (1, 3))


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_review_looks_and_loads_nothing_from_elsewhere(browser, review, size, scheme):
    show(browser, review.address, size, scheme)
    question(browser)
    check_looks(browser, size, scheme)
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map(one => one.name)"
    )
    assert [name for name in loaded if not name.startswith(review.address)] == []
    assert browser.title == "Review of pairs"  # nothing of ATTACK ran
    assert find(browser, "main img") == []
    small = browser.execute_script(
        "return [...document.querySelectorAll('.keys button')]"
        ".filter(one => one.getBoundingClientRect().height < 44).length"
    )
    assert small == 0
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('button, meter')].filter(one =>"
        " !one.textContent.trim() && !one.getAttribute('aria-labelledby')).length"
    )
    assert unnamed == 0


def test_keys_answer_skip_and_undo(browser, review):
    browser.get(review.address)
    first = question(browser)
    press(browser, "y", review, 1)
    assert browser.switch_to.active_element.get_attribute("id") == "question"
    second = question(browser)
    assert second != first
    press(browser, "n", review, 2)
    third = question(browser)
    press(browser, "S", review, 3)
    table = review.answers.read()
    assert list(zip(table["left"], table["right"], strict=True)) == [first, second, third]
    assert table["checked"].tolist() == ["yes", "no", ""]
    assert second[0] in find(browser, "#last")[0].text
    press(browser, "u", review, 2)
    assert question(browser) == second
    find(browser, "#no")[0].click()
    until(lambda: len(review.answers.read()) == 3)
    for key in ("x", "1", "\ue006"):  # Enter on the heading
        find(browser, "body")[0].send_keys(key)
    assert len(review.answers.read()) == 3


def test_a_closed_page_loses_nothing_and_two_tabs_do_not_ask_twice(browser, review):
    browser.get(review.address)
    first = question(browser)
    press(browser, "y", review, 1)
    second = question(browser)
    browser.refresh()
    assert question(browser) == second
    home = browser.current_window_handle
    browser.switch_to.new_window("tab")
    browser.get(review.address)
    other = question(browser)
    assert other not in (first, second)
    press(browser, "n", review, 2)
    browser.close()
    browser.switch_to.window(home)
    assert question(browser) == second
    press(browser, "n", review, 3)
    table = review.answers.read()
    assert list(zip(table["left"], table["right"], strict=True)) == [first, other, second]


def test_the_page_shows_the_model_that_was_fitted_again(browser, review):
    browser.get(review.address)
    for k in range(EVERY):
        question(browser)
        press(browser, "n", review, k + 1)
    until(lambda: review._model.n_answers == EVERY)
    links = str(review._model.numbers["links"])
    until(lambda: find(browser, "#links")[0].text == links)
    assert find(browser, "#message")[0].text == ""


def test_the_page_says_if_the_command_has_ended(browser, review):
    browser.get(review.address)
    question(browser)
    browser.execute_script("window.fetch = () => Promise.reject(new TypeError('no server'))")
    find(browser, "body")[0].send_keys("y")
    until(lambda: "has ended" in find(browser, "#message")[0].text)
    assert len(review.answers.read()) == 0
