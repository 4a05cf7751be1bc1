"""The product on nodes that look like those of each platform."""
