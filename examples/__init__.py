"""Joins that run, each as a job file and as Python, here and on Spark: docs/howto/examples.md lists them."""
