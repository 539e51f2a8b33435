"""``python -m fedplug`` is the command ``fedplug``."""

import sys

from fedplug.cli import main

if __name__ == "__main__":
    sys.exit(main())
