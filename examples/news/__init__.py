"""News items and who read them, out of XML."""
