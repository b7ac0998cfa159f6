"""Joins that run, each as a job file and as Python: docs/howto/examples.md lists them."""
