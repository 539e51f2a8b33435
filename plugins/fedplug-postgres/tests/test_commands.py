"""`fedplug store ...` on a store in a database."""

from __future__ import annotations

import fedplug
from fedplug.cli import main
from fedplug.testing.rounds import round_of


def test_the_commands_look_check_copy_and_go_back(new_url, tmp_path, capsys):
    url, folder = new_url(keep_rounds=2), str(tmp_path / "copy")
    with fedplug.open_store(url) as store:
        process = store.open_process("p", {"encoder": "topk"})
        process.commit(7, **round_of(7, ["a", "b"]))
        process.commit(8, **round_of(8, ["b"]))
        store.open_process("empty", {})
        for command in (["show", url], ["verify", url], ["copy", url, folder]):  # while it is in use
            assert main(["store", *command]) == 0, command
    output = capsys.readouterr().out
    assert ["p", "8", "2"] in [line.split() for line in output.splitlines()]
    assert "ok    process 'p'" in output
    other = new_url()
    assert main(["store", "copy", folder, other]) == 0
    with fedplug.open_store(other) as store:
        copy = store.open_process("p", {"encoder": "topk"})
        assert (copy.last_round, copy.metadata, store.processes()) == (8, {"round": 8}, ["empty", "p"])
        found = copy.read_clients(["a", "b"])
        assert (found["a"]["w"][0], found["b"]["w"][0], copy.read_server()["w"][0]) == (7, 8, 8)
    assert main(["store", "rewind", url, "7", "--process", "p"]) == 0
    with fedplug.open_store(url) as store:
        assert store.open_process("p").last_round == 7


def test_invalid_arguments_are_refused(url, new_url, tmp_path, capsys):
    assert main(["store", "show", url]) != 0
    assert "there is no store in postgresql://" in capsys.readouterr().err
    with fedplug.open_store(url) as store:
        store.open_process("p", {}).commit(0, **round_of(0, ["a"]))
    assert main(["store", "verify", url, "--drop-damaged"]) != 0
    assert "database servers have their own tools" in capsys.readouterr().err
    assert main(["store", "copy", url, url.replace("schema=", "schema=copy_of_")]) == 0
    assert main(["store", "copy", url, url.replace("schema=", "schema=copy_of_")]) != 0
    assert "already has processes" in capsys.readouterr().err
    (tmp_path / "there").mkdir()
    assert main(["store", "copy", url, str(tmp_path / "there")]) != 0
    assert "already exists" in capsys.readouterr().err
