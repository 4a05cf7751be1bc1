"""Memory shares on a control plane: binds, races, kills, and two extenders."""
