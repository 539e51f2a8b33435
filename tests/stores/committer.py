"""Commits one round after the other until it is killed; usage: committer.py FOLDER."""

import sys

from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.kills import commit_next

if __name__ == "__main__":
    process = SqliteStore(sys.argv[1]).open_process("p", {})
    while True:
        print(commit_next(process), flush=True)
