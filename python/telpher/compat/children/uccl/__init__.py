"""What ``import uccl`` finds in a child process's interpreter: puts Telpher's in its own place."""

import os
import sys

try:
    import telpher.compat
except ImportError:  # the parent found it by other means than the environment
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4)))
    import telpher.compat

if __name__ == "uccl":
    del sys.modules[__name__]
    telpher.compat.install("uccl")
