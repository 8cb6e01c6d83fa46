"""The command line: ``python -m innokit``, and the script ``innokit``."""

import os
import signal
import sys

from . import _innokit


def main():
    """Runs the command line with this process's arguments, and returns the exit status.

    It takes the process over, as its main program: call it once, and exit. Other programs start ``python -m innokit``.
    """
    # Python's own handler would raise an exception, and only after the work. Without it Ctrl-C acts as on the program
    # innokit: some commands stop and report what they have, others just end. A signal that the caller ignored stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    name = sys.argv[0]
    if os.path.basename(name) == "__main__.py":
        name = "innokit"
    return _innokit._run([name, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
