"""Impressions, clicks and conversions of advertisements."""
