"""The command line. Exit status: 0 fits, 1 error, 2 wrong usage, 3 would not fit."""

from scheduler_ext.cli.main import main

__all__ = ["main"]
