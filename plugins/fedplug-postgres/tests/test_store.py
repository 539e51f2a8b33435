"""Tests of a store in a database: its URL, its errors, rollbacks, large states, and readers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fedplug_postgres.store import PostgresStore

import fedplug
from fedplug.errors import ConfigError, CorruptStoreError, StoreError
from fedplug.testing.rounds import round_of


def values(process):
    return {client: state["w"][0] for client, state in process.read_clients(process.client_ids()).items()}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://x?schema=", "schema is ''"),
        (f"postgresql://x?schema={'s' * 64}", "1 to 63 bytes"),
        ("postgresql://x?keep_rounds=0", "keep_rounds is 0"),
        ("postgresql://x?keep_rounds=x", "must be numbers"),
        ("postgresql://x?timeout=-1", "timeout is -1"),
        ("postgresql://x:secret@y?colour=red", "not the URL of a database"),
        ("postgresql:x", "is not the URL of a store"),
    ],
)
def test_an_invalid_store_url_is_refused_without_repeating_the_password(url, message):
    with pytest.raises(ConfigError, match=message) as caught:
        fedplug.open_store(url)
    assert "secret" not in str(caught.value)


def test_the_readme_opens_a_store(new_url):
    page = Path(__file__).parents[1] / "README.md"
    [block] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines, count = re.subn(r"postgresql://[^\"]*", lambda _: new_url(keep_rounds=5), block)
    assert count == 1
    exec(lines, names := {})
    assert names["store"].get_config()["keep_rounds"] == 5


def test_an_unreachable_server_is_named_with_a_remedy():
    with pytest.raises(
        StoreError, match=r"postgresql://me@127.0.0.1:1/ cannot be reached: .*refused.*~/.pgpass"
    ):
        fedplug.open_store("postgresql://me:secret@127.0.0.1:1")


def test_a_wrong_password_is_an_error_and_no_password_is_shown(server, monkeypatch):
    server.sql("CREATE ROLE ada LOGIN PASSWORD 'sesame'", "GRANT CREATE ON DATABASE postgres TO ada")
    with pytest.raises(StoreError, match='password authentication failed for user "ada"') as caught:
        fedplug.open_store(server.url(role="ada:secret", schema="of_ada"))
    assert "secret" not in str(caught.value)
    with fedplug.open_store(server.url(role="ada:sesame", schema="of_ada")) as store:
        config = store.get_config()
    assert "sesame" not in str(config)
    monkeypatch.setenv("PGPASSWORD", "sesame")
    PostgresStore(**config).close()


def test_a_role_without_rights_is_an_error_that_names_them(server):
    server.sql("CREATE ROLE bob LOGIN PASSWORD 'sesame'")
    with pytest.raises(StoreError, match="permission denied for database postgres; the role needs CREATE"):
        fedplug.open_store(server.url(role="bob:sesame", schema="of_bob"))


def test_newer_versions_and_other_files_are_refused_and_not_changed(server, url, new_url):
    fedplug.open_store(url).close()
    schema = url.rpartition("=")[2]
    server.sql(f"UPDATE {schema}.fedplug_store SET version = 2")
    with pytest.raises(StoreError, match=r"has format version 2, and this release .* reads version 1"):
        fedplug.open_store(url)
    other = new_url()
    schema = other.rpartition("=")[2]
    server.sql(f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.state (mine int)")
    with pytest.raises(StoreError, match="the schema is not one that fedplug made"):
        fedplug.open_store(other)
    assert server.sql(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'") == [("state",)]


def test_going_back_restores_replaced_states_and_removes_clients_that_came_later(new_url):
    url = new_url(keep_rounds=3)
    with fedplug.open_store(url) as store:
        process = store.open_process("p", {})
        for number, clients in enumerate(["ab", "b", "a", "ab", ["a", "late"]]):
            process.commit(number, **round_of(number, list(clients)))
        assert process.kept_rounds() == [2, 3, 4]
        assert values(process) == {"a": 4, "b": 3, "late": 4}
        process.rewind(2)
        assert (process.last_round, process.metadata) == (2, {"round": 2})
        assert values(process) == {"a": 2, "b": 1}
        with pytest.raises(StoreError, match="round 4 of process 'p' is not kept; kept are: 2"):
            process.rewind(4)
        process.commit(3, **round_of(30, ["b"]))
    with fedplug.open_store(url) as store:
        process = store.open_process("p")
        assert values(process) == {"a": 2, "b": 30}
        process.verify()


def test_data_that_no_kept_round_needs_is_deleted(server, url):
    with fedplug.open_store(url) as store:
        process = store.open_process("p", {})
        for number in range(5):
            process.commit(number, **round_of(number, ["a", "b"]))
    assert server.sql(f"SELECT count(*) FROM {url.rpartition('=')[2]}.state") == [(3,)]


@pytest.mark.parametrize(
    "damage", ["data = data || '\\x00'", "checksum = checksum + 1", "part = 7", "name = 'x'"]
)
def test_a_damaged_row_is_named_and_not_read(server, url, damage):
    with fedplug.open_store(url) as store:
        process = store.open_process("p", {})
        process.commit(3, **round_of(3, ["a", "b"]))
        client = "owner = (SELECT owner FROM {0}.state WHERE name = 'client:a')"
        schema = url.rpartition("=")[2]
        server.sql(f"UPDATE {schema}.state SET {damage} WHERE {client.format(schema)}")
        with pytest.raises(CorruptStoreError, match=r"process 'p', client 'a', round 3: .*part \d"):
            process.read_clients(["a", "b"])
        with pytest.raises(CorruptStoreError, match="is corrupt"):
            process.verify()
        assert process.read_clients(["b"])["b"]["w"][0] == 3


def test_all_damage_is_listed(server, url):
    with fedplug.open_store(url) as store:
        process = store.open_process("p", {})
        process.commit(3, **round_of(3, ["a", "b", "c"]))
        schema = url.rpartition("=")[2]
        server.sql(f"UPDATE {schema}.state SET checksum = checksum + 1 WHERE name <> 'client:b'")
        names = sorted(line.split(", round")[0] for line in process.damage())
        assert names == ["process 'p', client 'a'", "process 'p', client 'c'", "process 'p', server state"]
        with pytest.raises(CorruptStoreError, match="and 2 more; `fedplug store verify` lists all"):
            process.verify()


def test_large_states_are_cut_and_a_round_needs_the_memory_of_few(url):
    """8 states of 40 MB each way, in a process that may grow by 200 MB over what it has when it begins."""
    program = (
        "import resource, sys, numpy as np, fedplug\n"
        "class States(dict):\n"
        "    def items(self):\n"
        "        for client in self: yield client, {'w': np.full(10_000_000, int(client), np.float32)}\n"
        "with fedplug.open_store(sys.argv[1]) as store:\n"
        "    process = store.open_process('p', {})\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    process.commit(0, client_states=States.fromkeys('01234567'), server_state={})\n"
        "    for client in '01234567':\n"
        "        assert process.read_clients([client])[client]['w'][-1] == int(client)\n"
        "    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    found = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 200


def test_a_reader_of_a_store_in_use_sees_one_commit_and_changes_nothing(url):
    with pytest.raises(StoreError, match="there is no store in"):
        PostgresStore.look_into(url)
    with fedplug.open_store(url) as store:
        process = store.open_process("p", {})
        process.commit(0, **round_of(0, ["a"]))
        with PostgresStore.look_into(url) as seen:
            process.commit(1, **round_of(1, ["a", "b"]))
            old = seen.open_process("p")
            assert (old.last_round, values(old)) == (0, {"a": 0})
            with pytest.raises(StoreError, match="was opened to look into it"):
                old.commit(1, **round_of(1, ["a"]))
        with PostgresStore.look_into(url) as seen:
            assert values(seen.open_process("p")) == {"a": 1, "b": 1}


def test_a_forked_child_cannot_use_the_connection_of_its_parent(url):
    program = (
        "import os, sys, fedplug\n"
        "store = fedplug.open_store(sys.argv[1])\n"
        "if os.fork() == 0:\n"
        "    try: store.processes()\n"
        "    except fedplug.errors.StoreError as error: print(error, flush=True)\n"
        "    store.close(); del store; os._exit(0)\n"
        "os.wait(); assert store.processes() == []\n"
    )
    found = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, check=True)
    assert "was opened before a fork()" in found.stdout
