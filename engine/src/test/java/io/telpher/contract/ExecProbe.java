package io.telpher.contract;

import io.telpher.internal.ffi.linux.Memory;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/// The program that takes a peer's place by `exec`: it has memory of its own where the peer had
/// a region, and looks whether somebody else writes to it.
final class ExecProbe {
    private static final int MAP_FIXED_NOREPLACE = 0x100000;
    private static final byte OURS = 0x33;

    private ExecProbe() {}

    /// @param args address and length of the memory, and the file that gets the result
    public static void main(String[] args) throws IOException {
        MemorySegment memory = map(Long.parseLong(args[0]), Long.parseLong(args[1]));
        memory.fill(OURS);
        String result = "quiet";
        long end = System.nanoTime() + 1_500_000_000L;
        while (System.nanoTime() < end && result.equals("quiet")) {
            try {
                Content.checkAll(memory, 0, memory.byteSize(), OURS);
            } catch (AssertionError e) {
                result = e.getMessage();
            }
        }
        Files.writeString(Path.of(args[2]), result);
    }

    /// Maps fresh memory at an address.
    static MemorySegment map(long address, long length) {
        int flags = Memory.MAP_PRIVATE | Memory.MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
        long mapped =
                Memory.mmap(address, length, Memory.PROT_READ | Memory.PROT_WRITE, flags, -1, 0);
        if (mapped != address) {
            throw new AssertionError("mmap at " + address + " gave " + mapped);
        }
        return Memory.segment(address, length);
    }

    /// Replaces this process by another program, without closing anything first.
    static void exec(List<String> command) throws Throwable {
        Linker linker = Linker.nativeLinker();
        MethodHandle execv =
                linker.downcallHandle(
                        linker.defaultLookup().find("execv").orElseThrow(),
                        FunctionDescriptor.of(
                                ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.ADDRESS));
        Arena arena = Arena.global();
        MemorySegment argv = arena.allocate(ValueLayout.ADDRESS, command.size() + 1);
        for (int i = 0; i < command.size(); i++) {
            argv.setAtIndex(ValueLayout.ADDRESS, i, arena.allocateFrom(command.get(i)));
        }
        int result = (int) execv.invokeExact(arena.allocateFrom(command.getFirst()), argv);
        throw new AssertionError("execv returned " + result);
    }
}
