"""Orders, payments and shipments of a shop."""
