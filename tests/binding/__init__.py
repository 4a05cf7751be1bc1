"""Bind: random steps and every order of the steps of two extenders, beside tables of its calls."""
