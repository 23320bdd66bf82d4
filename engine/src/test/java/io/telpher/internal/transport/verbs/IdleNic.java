package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.internal.ffi.verbs.VerbsOperations;
import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.transport.verbs.FakeObjects.FakePort;
import io.telpher.internal.transport.verbs.FakeObjects.Qp;
import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;

/// A double whose one-sided requests do nothing and complete at the next poll, to see what they
/// cost this side. Posting and polling make the native calls that they make with a device, into
/// functions that return at once.
///
/// One thread posts and polls at a time.
final class IdleNic extends FakeLibrary {
    /// The library's objects, as the bindings see them: their first field is the context, which has
    /// the functions.
    private final long nothing;

    /// By completion queue: the last request's id and 1, or 0.
    private final long[] due = new long[1024];

    IdleNic() {
        FakePort port = new FakePort();
        port.gids.add(FakeVerbs.gid(3, VerbsPorts.IBV_GID_TYPE_ROCE_V2, 10, 77, 0, 1));
        ports.put("idle", port);
        MemorySegment context = Arena.global().allocate(400, 8);
        long function = Linker.nativeLinker().defaultLookup().findOrThrow("labs").address();
        for (long at = 0; at < context.byteSize(); at += 8) {
            context.set(JAVA_LONG, at, function);
        }
        MemorySegment object = Arena.global().allocate(160, 8);
        object.set(JAVA_LONG, 0, context.address());
        nothing = object.address();
    }

    private static int place(long handle) {
        return (int) (handle >> 20);
    }

    @Override
    public int postSend(long qp, long wr) {
        Qp pair = handles.get(qp, Qp.class);
        if (pair.access != VerbsMemory.IBV_ACCESS_LOCAL_WRITE) {
            return super.postSend(qp, wr);
        }
        int unused = VerbsOperations.postSend(nothing, wr, nothing);
        due[place(pair.cq)] = SendRequest.id(wr) + 1;
        return 0;
    }

    @Override
    public int pollCq(long cq, int most, long wcs) {
        int place = place(cq);
        if (due[place] == 0) {
            return super.pollCq(cq, most, wcs);
        }
        int unused = VerbsOperations.poll(nothing, most, wcs);
        WorkCompletion.set(
                wcs,
                due[place] - 1,
                WorkCompletion.IBV_WC_SUCCESS,
                WorkCompletion.IBV_WC_RDMA_WRITE,
                0,
                0);
        due[place] = 0;
        return 1;
    }
}
