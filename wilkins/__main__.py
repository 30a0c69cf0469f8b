"""``python -m wilkins`` is the command ``wilkins``."""

from wilkins.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
