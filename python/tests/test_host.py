"""The process that the JVM is a guest of: what it was before the first endpoint, it is afterwards."""

import resource


def test_the_first_endpoint_changes_nothing_of_the_process(script):
    """Not its locale, where the JDK sets that of the environment; not what a core file holds, nor masks and limits (but for that of open files)."""
    text = """
        import locale, os, resource, signal, telpher
        def look():
            with open("/proc/self/coredump_filter") as file: core = file.read()
            limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_NOFILE"]
            return dict(locale=locale.setlocale(locale.LC_ALL), core=core, limits=limits, mask=signal.pthread_sigmask(signal.SIG_BLOCK, []),
                        environment=dict(os.environ), folder=os.getcwd(), nice=os.nice(0), cpus=os.sched_getaffinity(0))
        before = look()
        print("locale", before["locale"])
        telpher.Endpoint(transports=["shm"])
        after = look()
        print([(name, before[name], after[name]) for name in before if before[name] != after[name]])
    """
    out, err = script(text, env={"LC_ALL": "C.UTF-8"}).end()
    told, changed = out.splitlines()
    assert "LC_NUMERIC=C;" in told, "Python sets LC_CTYPE alone, so a change of the others shows"
    assert (changed, err) == ("[]", "")


def test_the_main_thread_keeps_its_stack(script):
    """C code may go as deep after the first endpoint as the limit says, here 2 MiB; the JVM's own threads would have 1."""
    soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    assert soft == resource.RLIM_INFINITY or soft >= 4 << 20, "the stacks of this machine are small: ulimit -s 8192"
    going = script(
        """
        import ctypes, sys, telpher
        endpoint = telpher.Endpoint(transports=["shm"])
        sys.setrecursionlimit(1 << 30)

        def size():
            with open("/proc/self/maps") as maps: line, = (line for line in maps if "[stack]" in line)
            first, last = line.split()[0].split("-")
            return int(last, 16) - int(first, 16)

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
        def down(left): return 7 if left == 0 else down(left - 1)  # one call of C in the other

        levels = 0
        while size() < 2 << 20:
            levels += 100
            assert down(levels) == 7
        print("deep")
        """
    )
    assert going.end() == ("deep\n", "")
