"""What ``import uccl`` gives after ``telpher.compat.install()``: the module ``p2p``, and nothing else of UCCL."""

from . import p2p

__all__ = ["p2p"]
