"""Readings of three neighbouring sensors."""
