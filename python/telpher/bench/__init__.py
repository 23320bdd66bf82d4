"""``python -m telpher.bench``: what transfers cost from Python on both sides, and beside others."""
