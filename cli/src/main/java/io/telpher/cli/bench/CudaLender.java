package io.telpher.cli.bench;

import io.telpher.internal.ffi.cuda.CudaContexts;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaIpc;
import java.util.HexFormat;
import org.jspecify.annotations.Nullable;

/// The other process of the bare copies: allocates memory of its GPU and gives out its CUDA IPC
/// handle. One allocation at a time.
final class CudaLender implements AutoCloseable {
    private @Nullable CudaBuffer buffer;

    /// Answers `lend`: `bytes` of the GPU of rank `rank`, or with 0 bytes takes the last one back.
    Message answer(Message message) {
        close();
        Message lent = Message.of("lent");
        long bytes = message.number("bytes");
        if (bytes == 0) {
            return lent;
        }
        CudaBuffer fresh = new CudaBuffer(Gpus.of((int) message.number("rank")), bytes);
        buffer = fresh;
        byte[] handle = new byte[CudaIpc.CU_IPC_HANDLE_SIZE];
        CudaContexts.pushCurrent(fresh.context());
        try {
            int result = CudaIpc.tryGetMemHandle(fresh.address(), handle);
            if (result != CudaError.CUDA_SUCCESS) {
                throw new BenchFailure("no CUDA IPC handle: " + CudaError.describe(result));
            }
        } finally {
            CudaContexts.popCurrent();
        }
        return lent.with("handle", HexFormat.of().formatHex(handle));
    }

    @Override
    public void close() {
        CudaBuffer last = buffer;
        buffer = null;
        if (last != null) {
            last.close();
        }
    }
}
