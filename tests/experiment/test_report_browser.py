"""The page as a reader meets it: opened in the Chromium of this machine, with its scripts and its keys.

Skipped where there is none; `.ci/run` installs one where it may.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from fedplug.experiment.report import write_report

pytestmark = pytest.mark.needs("matplotlib")
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
SPEEDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
EVIL = '</script><img src=x onerror="window.hit = 1"><script>window.hit = 1</script>\'$&'
SECONDS = {"s": 1, "min": 60, "h": 3600}
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(
            f"no browser on this machine: none of {', '.join(NAMES)} (Debian: apt-get install chromium)"
        )
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=root)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def folder(make_folder: Callable[..., Path]) -> Path:
    return make_folder(rounds=40)


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a report of folders, once."""

    @functools.cache
    def write(*folders: Path) -> Path:
        out = tmp_path_factory.mktemp("page") / "report.html"
        write_report(folders, out)
        return out

    return write


@pytest.fixture
def open_page(browser: Browser, report: Callable[..., Path]) -> Iterator[Open]:
    """Opens a report of folders; the test fails if a page complains or asks for anything but itself."""
    contexts: list[BrowserContext] = []
    heard: list[str] = []

    def open_page(*folders: Path, **settings: Any) -> Page:
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **settings)
        context.set_default_timeout(120_000)  # of a machine with much else to do
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: asked(request.url))
        page.goto(report(*folders).as_uri())
        return page

    def asked(url: str) -> None:
        if not url.startswith("data:") and not url.endswith("/report.html"):
            heard.append(url)

    yield open_page
    for context in contexts:
        context.close()
    assert heard == []


def cells(page: Page, run: str) -> list[str]:
    """Returns a run's verdict in the table of times."""
    row = page.locator("#times-body tr").filter(has=page.get_by_role("rowheader", name=run, exact=True))
    return [text.strip() for text in row.locator("td").all_inner_texts()]


def slide(page: Page, name: str, value: int) -> None:
    page.locator(f"#{name}").evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
    )


def seconds_to(folder: Path, run: str, target: float, up: float, down: float) -> list[float]:
    """Slow and obvious: compute, uplink, downlink until the mean of ten rounds is at the target."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["run"] == run]
    compute = sent = received = 0.0
    for i, row in enumerate(rows, start=1):
        compute += row["seconds"] if i > 1 else np.median([each["seconds"] for each in rows[1:]])
        sent += row["uplink_bytes"] / row["payloads"]
        received += row["downlink_bytes"] / row["clients"]
        if np.mean([each["test_accuracy"] for each in rows[max(0, i - 10) : i]]) >= target:
            return [compute, 8e-6 * sent / up, 8e-6 * received / down]
    raise AssertionError


@pytest.mark.parametrize(("up", "down"), [(1, 1), (10, 100), (1000, 1000)])
def test_the_sliders_change_the_times(open_page, folder, up, down) -> None:
    page = open_page(folder)
    slide(page, "up", SPEEDS.index(up))
    slide(page, "down", SPEEDS.index(down))
    for run in ("no compression", "top-k 1 %"):
        _, total, compute, uplink, downlink, *_ = cells(page, run)
        parts = seconds_to(folder, run, 0.8, up, down)
        for text, expected in zip((total, compute, uplink, downlink), (sum(parts), *parts), strict=True):
            words = text.split()  # as in "2 min 3 s"
            told = sum(float(x) * SECONDS[unit] for x, unit in zip(words[::2], words[1::2], strict=True))
            assert told == pytest.approx(expected, rel=0.01, abs=0.006)


def test_the_words_say_where_compression_pays_and_where_not(open_page, folder) -> None:
    page = open_page(folder)
    plain, top = (seconds_to(folder, run, 0.8, 10, 100) for run in ("no compression", "top-k 1 %"))
    assert cells(page, "no compression")[-1] == "is uncompressed"
    assert cells(page, "top-k 1 %")[-1].startswith(f"{sum(plain) / sum(top):.1f} times as fast")
    assert (
        page.locator("#verdict")
        .inner_text()
        .startswith("To reach 0.80 with 10 Mb/s up and 100 Mb/s down, the fastest is top-k 1 %, 8 bits")
    )
    slide(page, "up", SPEEDS.index(1000))
    assert cells(page, "top-k 1 %")[-1].startswith("does not pay here")
    assert page.locator("#verdict").inner_text() == (
        "To reach 0.80 with 1000 Mb/s up and 100 Mb/s down, the fastest is no compression. "
        "Does not pay here: top-k 1 %; top-k 1 %, 8 bits."
    )


def test_the_speed_up_to_which_it_pays_is_where_the_times_meet(open_page, folder) -> None:
    page = open_page(folder)
    pays, below, speed, *_ = cells(page, "top-k 1 %")[-1].splitlines()[-1].split()
    assert (pays, below) == ("pays", "below")
    runs = ("no compression", "top-k 1 %")
    plain, top = (sum(seconds_to(folder, run, 0.8, float(speed), 100)) for run in runs)
    assert top == pytest.approx(plain, rel=0.03)


def test_compute_may_be_shared_by_the_clients_or_left_out(open_page, folder) -> None:
    page = open_page(folder)
    compute = seconds_to(folder, "top-k 1 %", 0.8, 1, 1)[0]
    for choice, expected in (("measured", compute), ("shared", compute / 5), ("none", 0)):
        page.locator("#compute").select_option(choice)
        assert float(cells(page, "top-k 1 %")[2].split()[0]) == pytest.approx(expected, abs=0.006)


def test_start_up_stands_apart_and_decides_nothing(open_page, make_folder) -> None:
    plain, slow = make_folder(rounds=40), make_folder(rounds=40)
    log = slow / "metrics.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        row["seconds"] += 60.0 * (row["run"] == "top-k 1 %" and row["round"] == 1)
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    before, after = (cells(open_page(folder), "top-k 1 %") for folder in (plain, slow))
    assert (before[:6], before[7:]) == (after[:6], after[7:])
    assert float(after[6].split()[0]) == pytest.approx(60, abs=0.1)


def test_a_target_that_a_run_does_not_reach(open_page, make_folder) -> None:
    page = open_page(make_folder(rounds=40, last={"top-k 1 %": 8}))
    assert cells(page, "top-k 1 %")[1] == "not reached"
    assert "Does not get there: top-k 1 %." in page.locator("#verdict").inner_text()
    slide(page, "target", 0)
    assert cells(page, "top-k 1 %")[1] != "not reached"


def test_seeds_that_do_not_reach_the_target_are_named(open_page, make_folder) -> None:
    folder = make_folder(rounds=40, repeats=2)
    log = folder / "metrics.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        row["test_accuracy"] *= 0.5 if (row["run"], row["seed"]) == ("top-k 1 %", 1) else 1
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cells(open_page(folder), "top-k 1 %")[5].endswith(", 1 of 2 seeds")


def test_without_an_uncompressed_run_there_is_nothing_to_compare_with(open_page, make_folder) -> None:
    runs = {"a": {"encoder": "topk(0.1)"}, "b": {"encoder": "topk(0.2)"}}
    page = open_page(make_folder(runs=runs))
    assert cells(page, "a")[-1] == "no uncompressed run"


def test_it_can_be_used_with_the_keyboard_alone(open_page, folder) -> None:
    page = open_page(folder)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    stops = []
    for _ in range(80):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    wanted = ["against-0", "up", "down", "target", "compute", "tensor-metric-0"]
    assert [stop for stop in dict.fromkeys(stops) if stop in wanted] == wanted
    page.locator("#up").focus()
    before = cells(page, "no compression")
    page.keyboard.press("ArrowRight")
    assert page.locator("#up-value").inner_text() == "20 Mb/s"
    assert page.locator("#up").get_attribute("aria-valuetext") == "20 Mb/s"
    assert cells(page, "no compression") != before
    page.keyboard.press("Home")
    assert page.locator("#up-value").inner_text() == "1 Mb/s"
    page.locator("#against-0").focus()
    page.keyboard.press("ArrowRight")
    titles = page.locator("#accuracy svg[role=img] title")
    seen = [title.text_content() for title in titles.all() if title.locator("..").is_visible()]
    assert seen == ["test accuracy against downlink"]
    page.locator("#clients summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#clients details").first.get_attribute("open") is not None


def test_every_figure_has_an_alternative_text_and_a_table_behind_it(open_page, folder) -> None:
    page = open_page(folder)
    found = page.evaluate(
        """[...document.querySelectorAll("svg:not([aria-hidden])")].map((svg) => [
            svg.getAttribute("role"),
            ...svg.getAttribute("aria-labelledby").split(" ").map((id) => document.getElementById(id))
                .map((label) => label.textContent),
            svg.closest("section").querySelectorAll("table").length,
        ])"""
    )
    assert len(found) == 4 + 3 + 3 + 2 + 1 + 2  # curves; bytes, NMSE and residuals by run; parts; clients
    for role, title, description, tables in found:
        assert role == "img"
        assert len(title) > 10
        assert len(description) > 10
        assert tables
    bars = page.locator(".bar").all()
    assert len(bars) == 3
    assert all("compute" in str(bar.get_attribute("aria-label")) for bar in bars)
    unnamed = (
        """[...document.querySelectorAll("table")].filter((table) => !table.caption?.textContent).length"""
    )
    assert page.evaluate(unnamed) == 0
    # What names controls is on the screen: labels, not placeholders.
    for name in ("Uplink", "Downlink", "Target", "Compute"):
        assert page.get_by_label(name).first.is_visible()


CONTRASTS = """() => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const light = (color) => {
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const linear = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((byte) => byte / 255)
            .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const style = getComputedStyle(document.documentElement);
    const paper = light(style.getPropertyValue("--paper"));
    return Object.fromEntries(["ink", "muted", "accent", "part0", "part1", "part2",
        ...Array.from({length: 8}, (_, i) => `series${i}`)].map((name) => {
            const [low, high] = [paper, light(style.getPropertyValue(`--${name}`))].sort((a, b) => a - b);
            return [name, (high + 0.05) / (low + 0.05)];
        }));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(open_page, folder, scheme) -> None:
    """Contrasts as WCAG 2.2 wants them: 4.5 of text, 3 of what is drawn."""
    page = open_page(folder, color_scheme=scheme)
    contrasts = page.evaluate(CONTRASTS)
    drawn = {name: ratio for name, ratio in contrasts.items() if name.startswith("series")}
    assert {name: ratio for name, ratio in drawn.items() if ratio < 3} == {}
    assert min(contrasts["ink"], contrasts["muted"], contrasts["accent"]) >= 4.5
    assert min(contrasts["part0"], contrasts["part1"], contrasts["part2"]) >= 2.5


def test_figures_follow_the_scheme(open_page, folder) -> None:
    color = "getComputedStyle(document.querySelector('figure svg text')).fill"
    light, dark = (open_page(folder, color_scheme=scheme).evaluate(color) for scheme in ("light", "dark"))
    assert (light, dark) == ("rgb(27, 31, 36)", "rgb(231, 234, 238)")


@pytest.mark.slow
def test_a_narrow_screen_scrolls_within_tables_and_figures_only(open_page, make_folder) -> None:
    page = open_page(make_folder("a" * 60, rounds=4), make_folder("b" * 60, rounds=3))
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    for width in (320, 700):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_names_are_shown_and_never_run(open_page, make_folder) -> None:
    folder = make_folder(runs={"plain": {"encoder": "identity"}, EVIL: {"encoder": "topk(0.1)"}}, rounds=12)
    page = open_page(folder)
    page.wait_for_timeout(100)
    assert page.evaluate("window.hit") is None
    assert cells(page, EVIL)
    assert page.locator(".legend li").filter(has_text=EVIL).count() == 1


def test_without_a_script_the_rest_is_there(open_page, folder) -> None:
    page = open_page(folder, java_script_enabled=False)
    assert page.get_by_text("it does not run in this browser").is_visible()
    assert page.locator("#accuracy .panel:visible").count() == 1
    page.locator("label[for=against-3]").click()
    assert page.locator("#accuracy .panel:visible svg title").text_content() == "test accuracy against rounds"


def test_an_older_folder_alone_is_a_page_too(open_page, make_folder) -> None:
    folder = make_folder(rounds=3, tensor_metrics=False, target=0)
    for name in ("config.json", "model.json", "provenance.json", "environment.json"):
        (folder / name).unlink()
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    kept = [{key: value for key, value in row.items() if key != "client_ids"} for row in rows]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    page = open_page(folder)
    assert page.locator(".notice").count() >= 4
    assert cells(page, "no compression")[-1] == "no uncompressed run"
