"""The page as bytes: safe, small, the same again, and true to what the folder has and lacks."""

from __future__ import annotations

import base64
import html
import html.parser
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from fedplug.pictures import COLORS, DENSE, INK
from fedplug.tff.experiment.display import printable
from fedplug.tff.experiment.report import plot, printed, write_report
from fedplug.tff.experiment.report.folder import read_experiments
from fedplug.tff.experiment.report.page import render

pytestmark = [pytest.mark.needs("matplotlib"), pytest.mark.needs("jinja2")]
EVIL = "</script><script>alert(1)</script>'\"&<img src=x onerror=alert(2)>$x_1$\x00\ud800"


class Reader(html.parser.HTMLParser):
    """Collects elements, their attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page(*folders: Path) -> str:
    return render(read_experiments(folders))


def pictures(text: str) -> dict[str, str]:
    """Returns the pictures of a page as SVG, by their description."""
    images = [attributes for tag, attributes in Reader(text).elements if tag == "img"]
    return {
        str(image["alt"]): base64.b64decode(
            str(image["src"]).removeprefix("data:image/svg+xml;base64,")
        ).decode()
        for image in images
    }


def colors_of(svg: str, names: Iterable[str]) -> dict[str, str]:
    """Returns the color in which each name is written."""
    texts = {
        text: re.search(r"#\w{6}", style)
        for style, text in re.findall(r"<text style=\"([^\"]*)\"[^>]*>([^<]*)<", svg)
    }
    return {name: texts[name][0] for name in names if texts.get(name)}


def test_a_run_has_one_color_in_all_pictures_for_light_and_dark_pages(make_folder, tmp_path) -> None:
    names = ("not begun", "a", "b", "plain")
    runs = {name: {"encoder": "identity" if name == "plain" else "topk(0.1)"} for name in names}
    folder = make_folder(runs=runs, rounds=40, last={"not begun": 0}, tensor_metrics=False)
    plot(folder, tmp_path / "accuracy.svg")
    drawn = pictures(page(folder))
    for svg in drawn.values():
        assert "prefers-color-scheme: dark" in svg
        assert svg.count(INK) == 1  # as the color of text on light pages
        assert "currentColor" in svg
    written = {
        title: colors_of(svg, names)
        for title, svg in drawn.items()
        if "test accuracy" in title or "Seconds" in title
    }
    assert len(written) == 6
    for each in [*written.values(), colors_of((tmp_path / "accuracy.svg").read_text(), names)]:
        assert each == {"a": COLORS[1], "b": COLORS[2], "plain": DENSE}


def test_names_from_a_folder_are_texts_wherever_they_stand(make_folder) -> None:
    folder = make_folder(
        runs={EVIL: {"encoder": EVIL}, "x": {"encoder": "identity"}},
        shapes={EVIL: [9], "b": [99]},
        rounds=12,
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "name": EVIL, EVIL: {EVIL: EVIL}}))
    (folder / "environment.json").write_text(json.dumps([{EVIL: EVIL}]))
    (folder / "provenance.json").write_text(json.dumps({EVIL: [{"kind": EVIL}, 3]}))
    text = page(folder)
    text.encode()
    read = Reader(text)
    tags = [tag for tag, _ in read.elements]
    assert "script" not in tags
    assert all(
        str(attributes["src"]).startswith("data:") for tag, attributes in read.elements if tag == "img"
    )
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    assert printable(EVIL) in read.texts


@pytest.fixture(scope="module")
def two(make_folder) -> str:
    """The page of two folders, which differ in their rounds."""
    return page(*(make_folder(f"of {i}", rounds=i, tensor_metrics=False) for i in (3, 4)))


def test_only_its_own_style_applies_no_script_runs_and_nothing_is_loaded(two) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', two)
    assert re.fullmatch(
        r"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        r"style-src 'sha256-[\w+/=]{44}'",
        html.unescape(policy),
    )
    attributes = [pair for _, attributes in Reader(two).elements for pair in attributes.items()]
    links = {str(value)[:5] for name, value in attributes if name in ("href", "src", "action", "xlink:href")}
    assert {link[0] for link in links} == {"#", "d"}
    assert {link for link in links if link[0] == "d"} == {"data:"}
    assert not [name for name, _ in attributes if name == "style"]


def test_no_identifier_is_there_twice_and_every_reference_leads_somewhere(two) -> None:
    read = Reader(two)
    found = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(found) == len(set(found))
    wanted = set(re.findall(r'(?:href="#|url\(#|for=")([\w-]+)', two))
    wanted |= {name for _, each in read.elements for name in (each.get("aria-labelledby") or "").split()}
    assert wanted - set(found) == set()


def test_differences_between_folders_are_marked(two) -> None:
    assert '<tr class="marked"><th scope="row" class="text">rounds</th><td class="text">3</td>' in two
    assert '<tr><th scope="row" class="text">clients_per_round</th>' in two


@pytest.mark.slow
def test_equal_folders_give_equal_bytes_in_another_process_too(make_folder, tmp_path) -> None:
    folder = make_folder(rounds=12, repeats=2)
    write_report([folder], tmp_path / "here.html")
    command = [sys.executable, "-m", "fedplug", "report", str(folder), "--out", str(tmp_path / "there.html")]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    assert (tmp_path / "here.html").read_bytes() == (tmp_path / "there.html").read_bytes()


def test_the_tables_are_those_that_are_printed_and_an_unfinished_experiment_says_so(make_folder) -> None:
    last = {"top-k 1 %": 2, "top-k 1 %, 8 bits": 0}
    folder = make_folder(rounds=14, repeats=2, last=last, tensor_metrics=False)
    lines = printed(*read_experiments([folder])).splitlines()
    text = page(folder)
    texts = Reader(text).texts
    assert not [cell for line in lines[3:5] for cell in re.split(r"  +", line) if cell not in texts]
    assert "unfinished, of 14 rounds: top-k 1 %; not begun: top-k 1 %, 8 bits" in text


def test_missing_data_of_a_folder_is_reported_with_the_key_that_records_it(make_folder) -> None:
    folder = make_folder(rounds=4, tensor_metrics=False, target=0)
    for name in ("model.json", "provenance.json", "environment.json"):
        (folder / name).unlink()
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        del row["test_accuracy"]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = " ".join(Reader(page(folder)).texts)
    for said in (
        *["there is no model.json", "Set target_accuracy", "set tensor_metrics = true"],
        *["The rows have no test_accuracy", "There is no provenance.json", "There is no environment.json"],
    ):
        assert said in text


def test_a_loss_has_curves_and_no_time_to_reach_it(make_folder) -> None:
    folder = make_folder(rounds=4, tensor_metrics=False)
    log = folder / "metrics.jsonl"
    log.write_text(log.read_text().replace("test_accuracy", "test_loss"))
    text = page(folder)
    assert "test loss against uplink" in text
    assert "No run has an accuracy that grows with training" in text
