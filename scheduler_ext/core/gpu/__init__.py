"""GPUs: models and their names, MIG geometry, and one GPU with what runs on it."""
