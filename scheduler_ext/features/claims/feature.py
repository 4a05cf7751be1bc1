"""Claims, as an entry of the list of features."""

from scheduler_ext.feature import Feature

CLAIMS = Feature(name="claims", serving="scheduler_ext.features.claims.serving")
