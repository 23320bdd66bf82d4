"""Moves a tensor from one process to another: run `hello.py serve FILE`, and then `hello.py write FILE`."""

import os, pathlib, sys

import numpy as np
import telpher

role, file = sys.argv[1], pathlib.Path(sys.argv[2])
with telpher.Endpoint() as endpoint:
    if role == "serve":
        weights = np.zeros(1_000_000, "f4")
        endpoint.publish("weights", region := endpoint.register(weights))
        file.with_suffix(".new").write_bytes(bytes(endpoint.address))  # whoever can read it may connect
        os.replace(file.with_suffix(".new"), file)
        print(endpoint.accept(timeout=60).wait_notification(timeout=60).decode(), weights[[0, -1]])
    else:
        peer = endpoint.connect(file.read_bytes())
        remote = peer.lookup("weights", timeout=10)
        peer.write(np.arange(1_000_000, dtype="f4"), remote, notification=b"weights are there:").wait()
