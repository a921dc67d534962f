"""Where the command line begins: as the console script, and as `python -m lookahead`.

Modules take some tenths of a second to load. Until then Ctrl-C ends the process as it ends any
program, without a traceback; then the command line says how it ended. Other systems than Linux
have not all that they are made of.
"""

import signal
import sys

from lookahead.errors import ExitStatus


def main() -> None:
    """Run the command line and exit with its status."""
    if sys.platform != "linux":
        sys.stderr.write("error: lookahead runs on Linux only\n")
        sys.stderr.write("hint: There it reaches servers elsewhere, too, by -h or --dsn.\n")
        sys.exit(ExitStatus.ENVIRONMENT)
    # What was to be ignored stays so: of a job in the background.
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not is_ignored:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    from lookahead.cli import main as run

    if not is_ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
