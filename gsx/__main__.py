"""``python -m gsx``."""

from gsx.cli.main import main

main()
