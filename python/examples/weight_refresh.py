"""Refreshes the weights of N inference workers from one trainer: each worker lets the trainer write into its tensors, a version at a time."""

import multiprocessing
import sys

import torch
import telpher

SHAPES = {"embedding": (1000, 64), "attention": (64, 192), "head": (64, 1000)}
VERSIONS = 3


def worker(number, address):
    model = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    with telpher.Endpoint() as endpoint:
        trainer = endpoint.connect(address, timeout=60)
        regions = [endpoint.register(tensor) for tensor in model.values()]  # closed with the endpoint
        trainer.notify(b"".join(bytes(region.remote) for region in regions))
        for _ in range(VERSIONS):
            version = int(trainer.wait_notification(timeout=60))  # every byte of that version is here
            assert all(bool((tensor == version).all()) for tensor in model.values())
            trainer.notify(b"ready")  # the trainer may write the next one
        trainer.wait_notification(timeout=60)
    print("worker", number, "has version", VERSIONS)


def main(workers):
    model = [torch.zeros(shape) for shape in SHAPES.values()]
    with telpher.Endpoint() as endpoint:
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=worker, args=(i, endpoint.address)) for i in range(workers)]
        for process in processes:
            process.start()
        peers = [endpoint.accept(timeout=60) for _ in processes]
        regions = [endpoint.register(tensor, access="none") for tensor in model]
        refreshes = []
        for peer in peers:
            targets = peer.wait_notification(timeout=60)
            remotes = [telpher.RemoteMemory(targets[i : i + 48]) for i in range(0, len(targets), 48)]
            refreshes.append((peer, remotes))
        for version in range(1, VERSIONS + 1):
            for tensor in model:
                tensor.fill_(version)
            telpher.wait_all(
                peer.write(regions, remotes, notification=b"%d" % version) for peer, remotes in refreshes
            )
            for peer in peers:
                peer.wait_notification(timeout=60)
        for peer in peers:
            peer.notify(b"done").wait()
        for process in processes:
            process.join(60)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
