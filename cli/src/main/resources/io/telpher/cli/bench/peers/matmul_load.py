"""Multiplies bf16 matrices on GPUs without end. Answers each line that it reads with how many products each GPU
has done, and ends with its input. Arguments: the GPUs, as torch numbers them."""

import collections
import json
import sys
import threading
import time

SIZE = 8192
AHEAD = 4  # products that are queued: the GPU never waits for the next one


def say(answer):
    print(json.dumps(answer), flush=True)


class Load(threading.Thread):
    def __init__(self, torch, gpu):
        super().__init__(daemon=True)
        self.torch, self.gpu, self.done, self.failure = torch, gpu, 0, None
        self.start()

    def run(self):
        try:
            self.multiply()
        except Exception as error:  # told with the next answer
            self.failure = f"GPU {self.gpu}: {error}"

    def multiply(self):
        torch = self.torch
        with torch.cuda.device(self.gpu), torch.cuda.stream(torch.cuda.Stream(self.gpu)):
            left, right, out = (torch.randn(SIZE, SIZE, dtype=torch.bfloat16, device="cuda") for _ in range(3))
            queued = collections.deque()
            while True:
                torch.mm(left, right, out=out)
                end = torch.cuda.Event(blocking=True)
                end.record()
                queued.append(end)
                if len(queued) > AHEAD:
                    queued.popleft().synchronize()
                    self.done += 1


def main():
    try:
        import torch
    except ImportError as error:
        return say({"skip": f"the python3 on the PATH has no torch: {error}"})
    gpus = [int(gpu) for gpu in sys.argv[1:]]
    if not torch.cuda.is_available() or torch.cuda.device_count() <= max(gpus):
        return say({"skip": f"torch {torch.__version__} finds no GPU {max(gpus)}"})
    loads = [Load(torch, gpu) for gpu in gpus]
    while not all(load.done > 20 or load.failure for load in loads):
        time.sleep(0.01)
    say({"version": torch.__version__, "flop": 2 * SIZE**3})
    for _ in sys.stdin:
        failure = next((load.failure for load in loads if load.failure), None)
        done = {f"gpu{load.gpu}": load.done for load in loads}
        say({"failed": failure} if failure else {"nanos": time.perf_counter_ns()} | done)


if __name__ == "__main__":
    main()
