package io.telpher.internal.device.hip;

import io.telpher.internal.device.Pins;
import io.telpher.internal.ffi.hip.HipError;
import io.telpher.internal.ffi.hip.HipMemory;

/// Page-locking by a device, for all.
record HipPinning(HipDevice device) implements Pins.Driver {
    @Override
    public int tryLock(long address, long bytes) {
        int before = device.enter();
        try {
            return HipMemory.tryHostRegister(address, bytes, HipMemory.hipHostRegisterPortable);
        } finally {
            device.exit(before);
        }
    }

    @Override
    public void unlock(long address) {
        int before = device.enter();
        try {
            HipMemory.hostUnregister(address);
        } finally {
            device.exit(before);
        }
    }

    @Override
    public boolean isLockedAlready(int result) {
        return result == -HipError.hipErrorHostMemoryAlreadyRegistered;
    }

    @Override
    public boolean isLocked(long address) {
        HipMemory.Attributes found = HipMemory.describe(address);
        return found != null && found.type() == HipMemory.Type.HOST;
    }

    @Override
    public String describe(int result) {
        return HipError.describe(result);
    }
}
