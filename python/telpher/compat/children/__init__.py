"""First on ``PYTHONPATH`` of the interpreters that a script under ``python -m telpher.compat`` starts: what it imports there is Telpher's, too."""
