"""The check of the built site finds what is dead, and nothing else."""

from __future__ import annotations

from check_site import dead_links


def test_dead_files_anchors_and_pictures_are_found(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/other.html").write_text(
        '<h1 id="here">x</h1><a href="../index.html">up</a>', encoding="utf-8"
    )
    (tmp_path / "index.html").write_text(
        '<a href="sub/other.html#here"></a><a href="sub"></a><a href="https://example.org/gone"></a>'
        '<a href="sub/other.html#gone"></a><a href="gone.html"></a><a href="#gone"></a><img src="gone.png">',
        encoding="utf-8",
    )
    dead = ["sub/other.html#gone", "gone.html", "#gone", "gone.png"]
    assert list(dead_links(tmp_path)) == [f"index.html: {link}" for link in dead]
