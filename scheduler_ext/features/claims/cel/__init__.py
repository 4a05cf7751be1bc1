"""Expressions of the Common Expression Language (CEL) that select devices, as Kubernetes evaluates them. The
only package that imports cel_expr_python."""
