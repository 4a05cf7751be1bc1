"""GPUNodes: accepted, refused, and read in part."""
