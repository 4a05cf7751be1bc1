"""Models and MIG geometry."""
