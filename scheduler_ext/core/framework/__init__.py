"""Common parts of filters and scores: their interface, reasons and exact allocation."""
