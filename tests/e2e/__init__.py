"""The product as its users meet it: installed on a real control plane, asked by a real scheduler."""
