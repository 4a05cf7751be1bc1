"""Moves of pods on a control plane."""
