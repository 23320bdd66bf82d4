"""What the tests share: pairs of endpoints in this process, and scripts in processes of their own."""

import os
import subprocess
import sys
import textwrap

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
sys.path.insert(0, PACKAGE)

import telpher  # noqa: E402

# This process, and those of the tests, neither use nor make a start-up cache; test_the_start_up_cache does.
os.environ["TELPHER_NO_AOT"] = "1"

QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For TELPHER_JAVA_OPTS of processes that end before the second compiler would be of use."""


def environment(**more):
    """That of a process which imports this package and ends soon."""
    return {**os.environ, "PYTHONPATH": PACKAGE, "TELPHER_JAVA_OPTS": QUICK, **more}


DEADLINE = 60
"""Seconds: generous, since nothing here is about speed."""


class Pair:
    """Two connected endpoints."""

    def __init__(self, **options):
        self.a = telpher.Endpoint(**options)
        self.b = telpher.Endpoint(**options)
        self.ab = self.a.connect(self.b.address, DEADLINE)
        self.ba = self.b.accept(DEADLINE)

    def close(self):
        self.a.close()
        self.b.close()


@pytest.fixture(params=["shm", "tcp"])
def pair(request):
    made = Pair(transports=[request.param])
    yield made
    made.close()


@pytest.fixture
def tcp_pair():
    made = Pair(transports=["tcp"])
    yield made
    made.close()


class Script:
    """A Python process that runs some text. It talks by lines: `tell` and `expect` here, input() and print() there."""

    def __init__(self, text, *arguments, env=None, interpreter=()):
        self.process = subprocess.Popen(
            [sys.executable, *interpreter, "-c", textwrap.dedent(text), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(PYTHONUNBUFFERED="1", **(env or {})),
            text=True,
            start_new_session=True,
        )

    def tell(self, line):
        self.process.stdin.write(str(line) + "\n")
        self.process.stdin.flush()

    def expect(self, start=""):
        line = self.process.stdout.readline().rstrip("\n")
        if not line.startswith(start) or not line:
            out, err = self.process.communicate(timeout=DEADLINE)
            pytest.fail("expected a line with %r, got %r\n%s\n%s" % (start, line, out, err))
        return line[len(start) :].strip()

    def end(self, code=0):
        """Waits for its end. Returns (stdout, stderr)."""
        try:
            out, err = self.process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            pytest.fail("the script did not end\n%s\n%s" % (out, err))
        assert self.process.returncode == code, "%s\n%s" % (out, err)
        return out, err


@pytest.fixture
def script():
    started = []

    def start(*arguments, **keywords):
        made = Script(*arguments, **keywords)
        started.append(made)
        return made

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


PEER = """
    import telpher, os
    endpoint = telpher.Endpoint()
    region = endpoint.allocate(1 << 20)
    endpoint.publish("memory", region)
    print("address", endpoint.address.text)
    peer = endpoint.accept(60)
    print("connected")
"""
"""A script whose process publishes a megabyte and is connected to."""


@pytest.fixture
def peer(script):
    """(script, endpoint, connection to it, its memory)."""
    started = script(PEER + "    input()\n")
    endpoint = telpher.Endpoint()
    connection = endpoint.connect(started.expect("address"), DEADLINE)
    started.expect("connected")
    yield started, endpoint, connection, connection.lookup("memory", DEADLINE)
    endpoint.close()
