"""The queue of waiting pods: their order, their places, their reasons and estimates of their starts."""
