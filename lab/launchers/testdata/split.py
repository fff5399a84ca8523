import trainer  # noqa: F401
