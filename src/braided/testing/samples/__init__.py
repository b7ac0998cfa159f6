"""Streams to try things on, generated from a seed, and folders of files that Spark reads and writes."""
