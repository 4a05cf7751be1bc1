"""Tests of the features, in the rooms of `scheduler_ext/features`."""
