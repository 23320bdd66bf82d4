"""A folder for PYTHONPATH: interpreters that a script starts find ``uccl`` here (``python -m telpher.compat`` puts it there)."""
