"""What filters and scores have in common: their interface, reasons and exact allocation."""
