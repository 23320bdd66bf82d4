"""``python -m telpher``: the telpher command."""

from ._jvm import main

main()
