"""Run the command line as `python -m lookahead`, for environments without the console script."""

from lookahead.cli import main

if __name__ == "__main__":
    main()
