"""Commits one round after the other until it is killed; run as a program by the crash tests.

Usage: committer.py FOLDER [CALL COUNT]. With CALL, it dies at the COUNT-th use of `os.CALL` once set up.
"""

import sys

from deaths import die_at

from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.kills import commit_next


def main(folder, *death):
    process = SqliteStore(folder).open_process("p", {})
    if death:
        call, count = death
        die_at(int(count), [call])
    while True:
        print(commit_next(process), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
