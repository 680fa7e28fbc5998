"""Pages in a browser: real clicks and keys, on a desktop and on a phone, with hostile data."""

import shutil

import pytest

from mlestruct.datasets import make_people
from mlestruct.linkage import RecordLinker
from mlestruct.linkage.page import links_page as page_of_links

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


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_errors_no_requests_no_sideways_scrolling(browser, links_page, size, scheme):
    settings = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", settings)
    metrics = dict(zip(("width", "height"), size, strict=True))
    metrics |= {"deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(links_page)
    assert browser.title == "Links between two tables"  # nothing of ATTACK ran
    assert log(browser) == []
    loaded = browser.execute_script("return performance.getEntriesByType('resource').length")
    assert loaded == 0
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= size[0]
    ink, paper = (
        browser.execute_script(f"return getComputedStyle(document.body).{name}")
        for name in ("color", "backgroundColor")
    )
    dark = [sum(map(int, colour[4:-1].split(","))) for colour in (ink, paper)]
    assert (dark[0] < dark[1]) == (scheme == "light")


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
