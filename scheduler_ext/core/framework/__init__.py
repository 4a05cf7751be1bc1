"""What filters and scores share: their interface, reasons and exact allocation. Filters and scores never
import each other."""
