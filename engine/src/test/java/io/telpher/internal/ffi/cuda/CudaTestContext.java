package io.telpher.internal.ffi.cuda;

/// A device's primary context, current for the calling thread while a test's block runs: each test
/// method has a thread of its own.
record CudaTestContext(int device, long context) implements AutoCloseable {
    static CudaTestContext of(int device) {
        long context = CudaContexts.retainPrimary(device);
        CudaContexts.setCurrent(context);
        return new CudaTestContext(device, context);
    }

    @Override
    public void close() {
        CudaContexts.setCurrent(0);
        CudaContexts.releasePrimary(device);
    }
}
