"""The commands `simulate trace`, `simulate mig` and `simulate cluster`."""
