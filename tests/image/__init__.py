"""The container image, built from the Dockerfile and started."""
