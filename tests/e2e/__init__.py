"""The product as its users run it: installed on a real control plane, called by a real scheduler."""
