"""The decision: tables beside laws, which compare it with the oracles of `tests/`."""
