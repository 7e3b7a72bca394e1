"""``python -m harness``: the console script."""

from harness.cli import main

if __name__ == "__main__":
    main()
