"""Queries of the Nexmark suite."""
