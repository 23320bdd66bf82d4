"""Puts Telpher's modules in its own place."""

import sys

import telpher.compat

del sys.modules[__name__]
telpher.compat.install()
