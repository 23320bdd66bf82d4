"""The JVM's cache that saves about a third of the first endpoint's time; ``python -m telpher.aot`` makes it.

The cache (22 MB) is good for one Java runtime, one set of jars and one CPU; its name stands for all of that. It lies in the user's cache folder, and
every process of that user starts with it from then on. The first process that finds none has it made once it has ended. ``TELPHER_NO_AOT=1`` neither
uses nor makes one; nor does ``TELPHER_JAVA_OPTS``, since it would not fit.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import threading
import time
from typing import Dict, List, Optional

OPTION = "-XX:AOTCacheOutput="


# The lowest priority, after the process has ended: neither its start nor what it measures is slower for it. A shell waits, since it is small.
_LATER = """trap '' HUP; (while kill -0 "$1"; do sleep 2; done; exec nice -n 19 "$2" -m telpher.aot) &"""


def options(libjvm: str, jars: List[str], fixed: List[str]) -> List[str]:
    """The options by which the JVM uses the cache. Where there is none, one is made for those who come later."""
    if os.environ.get("TELPHER_NO_AOT") == "1" or os.environ.get("TELPHER_JAVA_OPTS"):
        return []
    file = path(libjvm, jars, fixed)
    if file is None:
        return []
    if not _trusted(file):
        threading.Thread(target=_make_later, args=(os.path.dirname(file),), name="telpher-aot", daemon=True).start()
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
    writable = (found.st_mode | folder.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(found.st_mode) and found.st_uid == folder.st_uid == os.geteuid() and not writable


def _folder(path: str) -> None:
    """Makes the folder that caches lie in, where only this user can write. Raises OSError where it is somebody else's."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.stat(path)
    if found.st_uid != os.geteuid():
        raise PermissionError("%s is not this user's" % path)
    os.chmod(path, stat.S_IMODE(found.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def _remove_old(file: str) -> None:
    """Removes caches that nothing has used for a month: those of jars and runtimes that are gone. One that is in use stays mapped."""
    before = time.time() - 30 * 86400
    folder = os.path.dirname(file)
    for name in os.listdir(folder):
        other = os.path.join(folder, name)
        if re.fullmatch(r"python-[0-9a-f]{24}\.aot", name) and other != file:
            try:
                found = os.lstat(other)
                if max(found.st_atime, found.st_mtime) < before and _trusted(other):
                    os.unlink(other)
            except OSError:
                pass


def _make_later(folder: str) -> None:
    """Leaves a process behind that makes the cache when this one has ended; says nothing and leaves nothing behind where it cannot."""
    if not os.path.basename(sys.executable or "").startswith("python"):
        return  # an interpreter inside of another program
    try:
        import fcntl
        import subprocess

        _folder(folder)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its maker inherits it; of many processes one leaves one behind
            subprocess.run(
                ["/bin/sh", "-c", _LATER, "sh", str(os.getpid()), sys.executable], env=_environment(), cwd=folder, pass_fds=[lock],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, check=False,
            )
        finally:
            os.close(lock)
    except OSError:
        pass


def _environment() -> Dict[str, str]:
    """That of a process in which this package is found as it is here. Its endpoints are none of the user's: a port of theirs would be taken, a
    transport that they exclude would be missing."""
    found = {name: value for name, value in os.environ.items() if name == "TELPHER_JARS" or not name.startswith("TELPHER_")}
    for name in "JAVA_TOOL_OPTIONS", "NCCL_SOCKET_IFNAME":
        found.pop(name, None)
    found["PYTHONPATH"] = os.pathsep.join(os.path.abspath(each) for each in sys.path)
    return found


def make() -> str:
    """Makes the cache, and returns its path."""
    import subprocess
    import tempfile

    from . import _jvm
    from ._errors import JvmError

    file = path(_jvm.libjvm(_jvm.find_java()), _jvm.jars(), _jvm.OPTIONS)
    if file is None:
        raise JvmError("there can be no cache here: it needs /proc/cpuinfo, and a home folder or XDG_CACHE_HOME")
    _folder(os.path.dirname(file))
    with tempfile.TemporaryDirectory(prefix=".aot-", dir=os.path.dirname(file)) as folder:
        made = os.path.join(folder, "aot")
        done = subprocess.run(
            [sys.executable, "-m", "telpher.aot", "--train"], env=dict(_environment(), TELPHER_JAVA_OPTS=OPTION + made), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
        )
        if not os.path.exists(made):
            raise JvmError("the JVM has not made a cache:\n%s" % done.stdout)
        os.chmod(made, 0o600)
        os.replace(made, file)
    _remove_old(file)
    return file


def train() -> None:
    """Does what programs do first, and ends as Java wants to end: it writes the cache then."""
    import telpher

    from . import _jvm

    a, b = telpher.Endpoint(), telpher.Endpoint()
    region = b.allocate(1 << 16)
    b.publish("memory", region)
    for only in (None, ["tcp"]):
        here = telpher.Endpoint(transports=only) if only else telpher.Endpoint()
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
