"""What a store holds, and damage to its files."""

from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.kills import check_whole


def values(process):
    """Returns the first value of every client."""
    return {client: state["w"][0] for client, state in process.read_clients(process.client_ids()).items()}


def check_same(found, expected):
    """Checks that names, dtypes, shapes and bits are equal."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def check_committed(folder, last_said):
    """Checks the store of `committer.py`: it holds all of the confirmed round, or all of the next one."""
    with SqliteStore(folder) as store:
        check_whole(store.open_process("p"), last_said)
        referred = {row.segment for row in store._index.segments()}
    assert {int(file.stem) for file in (folder / "segments").glob("*.segment")} == referred


def files_of(folder):
    """Returns the content of every file, by path."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flip(path, byte, bit=0):
    """Flips a bit of a byte of a file; a negative byte counts from the end."""
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << bit
    path.write_bytes(content)
