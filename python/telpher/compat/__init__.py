"""Stands in for other libraries: code written for ``uccl.p2p`` runs on Telpher unmodified (docs/compat-uccl.md).

    import telpher.compat
    telpher.compat.install()
    from uccl import p2p          # telpher.compat.uccl.p2p

or ``python -m telpher.compat uccl SCRIPT ARGS...``, which needs no change to the script. What fails is logged to the logger ``telpher.compat``.
"""

from __future__ import annotations

import importlib
import logging
import sys

_MODULES = {"uccl": ("uccl", "uccl.p2p")}


def install(library: str = "uccl") -> None:
    """From now on ``import uccl`` in this process gives Telpher's. One that was imported before is replaced, with a warning.

    Child processes that start a new interpreter (``spawn``) call this themselves; forked ones have it. Those of a script under
    ``python -m telpher.compat`` have it in any case.
    """
    if library not in _MODULES:
        raise ValueError("%r cannot be stood in for; there is %s" % (library, ", ".join(_MODULES)))
    for name in _MODULES[library]:
        ours = importlib.import_module("%s.%s" % (__name__, name))
        before = sys.modules.get(name)
        if before is not None and before is not ours:
            logging.getLogger(__name__).warning("%s was imported before telpher.compat.install(): who holds it goes on with it", name)
        sys.modules[name] = ours
