"""Leader election: by hand, and in every order of two extenders."""
