"""Claims, as an entry of the list of features."""

from scheduler_ext.feature import Feature

FEATURE = Feature(
    name="claims",
    settings="scheduler_ext.features.claims.settings",
    serving="scheduler_ext.features.claims.serving",
    selectors="scheduler_ext.features.claims.cel.device_expression",
)
