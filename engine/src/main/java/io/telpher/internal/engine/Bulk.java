package io.telpher.internal.engine;

/// Bulk operations that wait for a lane. Those whose next bytes lie in memory of hosts and those
/// whose next bytes lie in memory of devices have a queue each, and a lane takes frames of both in
/// turn ([Turns]): frames of hosts can go out at once, those of devices when a GPU has filled them
/// ([OutboundStaging]), and neither is kept waiting by what the other one waits for.
///
/// Guarded by the connection's lock; what encodes a frame needs the lane's send token besides.
final class Bulk {
    private final Lanes lanes;
    private final Cutting cutting;
    private final OperationQueue ofHosts;
    private final OperationQueue ofDevices;

    Bulk(OperationTable table, Lanes lanes, Cutting cutting) {
        this.lanes = lanes;
        this.cutting = cutting;
        this.ofHosts = new OperationQueue(table);
        this.ofDevices = new OperationQueue(table);
    }

    /// @return where an operation waits, by where its next bytes lie
    OperationQueue queue(Operation op) {
        return op.deviceAt(op.sent) == null ? ofHosts : ofDevices;
    }

    /// A hint, without the lock.
    boolean isFilled() {
        return ofHosts.isFilled() || ofDevices.isFilled();
    }

    /// @return the turns of a lane
    Turns turns(LaneState s) {
        return new Turns(new Hosts(s), new Devices(s));
    }

    private boolean mayCut(LaneState s) {
        return !s.windowFull() && lanes.carriesBulk(s);
    }

    private static boolean isHigh(OperationQueue queue) {
        Operation op = queue.peek();
        return op != null && op.high;
    }

    private final class Hosts implements Turns.Side {
        private final LaneState lane;

        Hosts(LaneState lane) {
            this.lane = lane;
        }

        @Override
        public boolean isHigh() {
            return Bulk.isHigh(ofHosts);
        }

        @Override
        public boolean next() {
            Operation op;
            while (mayCut(lane) && (op = ofHosts.peek()) != null) {
                if (cutting.cut(op, lane, ofHosts)) {
                    return true;
                }
            }
            return false;
        }
    }

    private final class Devices implements Turns.Side {
        private final LaneState lane;

        Devices(LaneState lane) {
            this.lane = lane;
        }

        /// Frames go out in the order in which they were cut: one of high priority makes those in
        /// front of it as urgent.
        @Override
        public boolean isHigh() {
            return lane.out.isHigh() || Bulk.isHigh(ofDevices);
        }

        /// Cuts as many as there are buffers, which GPUs fill at the same time. Where there are
        /// none, whoever cuts the frame copies.
        @Override
        public boolean next() {
            Operation op;
            while (mayCut(lane) && (op = ofDevices.peek()) != null) {
                if (!lane.out.takes(op)) {
                    if (cutting.cut(op, lane, ofDevices)) {
                        return true;
                    }
                } else if (lane.out.hasRoom()) {
                    cutting.stage(op, lane, ofDevices);
                } else {
                    break;
                }
            }
            return lane.out.next();
        }
    }
}
