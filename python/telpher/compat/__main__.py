"""``python -m telpher.compat uccl SCRIPT ARGS...``: runs a script with ``uccl`` being Telpher's."""

from __future__ import annotations

import os
import runpy
import sys

from . import _MODULES, install


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in _MODULES:
        sys.exit("usage: python -m telpher.compat {%s} SCRIPT ARGS..." % ",".join(_MODULES))
    install(sys.argv[1])
    children = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [children, os.environ.get("PYTHONPATH")]))
    del sys.argv[:2]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    sys.path.insert(1, children)  # multiprocessing gives a child this list in place of its own
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
