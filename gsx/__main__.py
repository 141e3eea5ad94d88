"""Entry point of ``python -m gsx``."""

from gsx.cli.main import main

if __name__ == "__main__":  # spawned worker processes import this module, too
    main()
