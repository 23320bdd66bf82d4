"""``python -m telpher.aot``: makes the JVM's cache that saves about a third of the first endpoint's time.

The cache (22 MB) is good for one Java runtime, one set of jars and one CPU; its name stands for all of that. It lies in the user's cache folder, and
every process of that user starts with it from then on. ``TELPHER_NO_AOT=1`` does without; so does ``TELPHER_JAVA_OPTS``, since it would not fit.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from typing import List, Optional

OPTION = "-XX:AOTCacheOutput="


def options(libjvm: str, jars: List[str], fixed: List[str]) -> List[str]:
    """The options by which the JVM uses the cache, if there is one for it."""
    if os.environ.get("TELPHER_NO_AOT") == "1" or os.environ.get("TELPHER_JAVA_OPTS"):
        return []
    file = path(libjvm, jars, fixed)
    if file is None or not _trusted(file):
        return []
    # Where the JVM finds it unfit it goes on without; its complaints would stand in the output of a program that works.
    return ["-XX:AOTCache=" + file, "-Xlog:aot*=off", "-Xlog:cds*=off"]


def path(libjvm: str, jars: List[str], fixed: List[str]) -> Optional[str]:
    """Where the cache of these lies, or None where there can be none."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(cache):
        return None
    try:
        key = ["%s %d %d" % (each, os.stat(each).st_size, os.stat(each).st_mtime_ns) for each in [os.path.realpath(libjvm), *jars]]
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            cpu = info.read().split("\n\n", 1)[0]
    except OSError:
        return None
    key += fixed
    key += re.findall(r"^(?:vendor_id|cpu family|model|stepping|microcode|flags|CPU [a-z]+|Features)\b.*", cpu, re.MULTILINE)
    return os.path.join(cache, "telpher", "python-%s.aot" % hashlib.sha256("\n".join(key).encode()).hexdigest()[:24])


def _trusted(file: str) -> bool:
    """Whether nobody but this user can have written it: the JVM trusts its contents."""
    try:
        found, folder = os.lstat(file), os.stat(os.path.dirname(file))
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == folder.st_uid == os.geteuid()


def make() -> str:
    """Makes the cache, and returns its path."""
    import subprocess
    import tempfile

    from . import _jvm

    file = path(_jvm.libjvm(_jvm.find_java()), _jvm.jars(), _jvm.OPTIONS)
    if file is None:
        raise _jvm.JvmError("there can be no cache here: it needs /proc/cpuinfo, and a home folder or XDG_CACHE_HOME")
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".aot-", dir=os.path.dirname(file)) as folder:
        made = os.path.join(folder, "aot")
        environment = dict(os.environ, TELPHER_JAVA_OPTS=OPTION + made, PYTHONPATH=os.pathsep.join(sys.path))
        environment.pop("JAVA_TOOL_OPTIONS", None)
        done = subprocess.run(
            [sys.executable, "-m", "telpher.aot", "--train"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
        )
        if not os.path.exists(made):
            raise _jvm.JvmError("the JVM has not made a cache:\n%s" % done.stdout)
        os.replace(made, file)
    return file


def train() -> None:
    """Does what programs do first, and ends as Java wants to end: it writes the cache then."""
    import telpher

    from . import _jvm

    a, b = telpher.Endpoint(), telpher.Endpoint()
    region = b.allocate(1 << 16)
    b.publish("memory", region)
    for options in ({}, {"transports": ["tcp"]}):
        here = telpher.Endpoint(**options)
        connection, accepted = here.connect(b.address, 30), b.accept(30)
        source = here.register(bytearray(1 << 16))
        remote = connection.lookup("memory", 30)
        for _ in range(20):
            connection.write(source, remote, notification=b"there").wait(30)
            accepted.wait_notification(30)
            connection.write(source[:8], remote).wait(30)
            connection.read(source[:8], remote).wait(30)
            receive = accepted.receive(bytearray(8))
            connection.send(source[:8]).wait(30)
            receive.wait(30)
        here.close()
    a.close()
    b.close()
    _jvm.exit_java()


if __name__ == "__main__":
    if sys.argv[1:] == ["--train"]:
        train()
    else:
        print(make())
