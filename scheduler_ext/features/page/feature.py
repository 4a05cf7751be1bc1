"""The live page, as an entry of the list of features."""

from scheduler_ext.feature import Feature

FEATURE = Feature(
    name="page",
    serving="scheduler_ext.features.page.serving",
    demo="scheduler_ext.features.page.demo_past",
)
