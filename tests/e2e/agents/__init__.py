"""Agents on a control plane: the definition of GPUNodes, and the policies that bind an agent to its node."""
