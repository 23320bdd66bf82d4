package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.verbs.VerbsDevices;
import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.spi.Availability;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The calls of libibverbs that this transport makes, one method each: the system's library behind
/// it ([SystemProvider]), or a double in tests. Thread-safe as the library is.
///
/// Handles are the addresses of the library's objects (`ibv_context *`, `ibv_pd *`, ...), never 0.
/// Work requests and completions are the C structs, by address (`internal.ffi.verbs`). What creates
/// something or changes a state throws [io.telpher.TelpherException.NativeFailure] with the call
/// and its errno; what runs for every batch returns what the C function does. What destroys
/// returns 0 or the errno, since whoever ends things goes on with the rest.
interface Provider {
    /// A registered range.
    ///
    /// @param handle the region
    /// @param lkey for own requests
    /// @param rkey for those of peers
    record Registration(long handle, int lkey, int rkey) {}

    /// What a device tells by itself.
    ///
    /// @param text what happened, for people
    /// @param fatal whether something is of no use any more
    /// @param element the handle of the queue pair or completion queue that it is about, 0 where it
    ///     is about a port or the device
    record AsyncEvent(String text, boolean fatal, long element) {}

    /// Whether there is a library and a device to be used, and what to do where not.
    Availability availability();

    /// `ibv_get_device_list`: names of the devices that have queue pairs of type RC.
    List<String> devices();

    /// `ibv_open_device`
    long open(String device);

    /// `ibv_close_device`
    int close(long context);

    /// `ibv_query_device`
    VerbsDevices.Attributes attributes(long context);

    /// `ibv_query_port`
    VerbsPorts.Attributes port(long context, int number);

    /// `ibv_query_gid_table`: the entries of a port that are in use.
    List<VerbsPorts.Gid> gids(long context, int port);

    /// How many leading bits of a GID's IPv4 or IPv6 address name the subnet, as its network
    /// interface has it; -1 when unknown.
    int prefix(VerbsPorts.Gid gid);

    /// Whether the kernel has a route from a RoCE address of this machine to one of another
    /// network, by the interface that has the first: it would send the packets of a queue pair
    /// that way. Does not say that they arrive.
    ///
    /// @param local a GID that holds an address
    /// @param remote another one, of the same family
    boolean routes(byte[] local, byte[] remote);

    /// `ibv_alloc_pd`
    long allocatePd(long context);

    /// `ibv_dealloc_pd`
    int deallocatePd(long pd);

    /// `ibv_reg_mr`
    ///
    /// @param access `IBV_ACCESS_` bits
    Registration register(long pd, long address, long bytes, int access);

    /// `ibv_dereg_mr`
    int deregister(long region);

    /// `ibv_create_comp_channel`
    long createChannel(long context);

    /// The channel's descriptor, which does not block.
    int descriptor(long channel);

    /// `ibv_get_cq_event`, and `ibv_ack_cq_events` for all that are there.
    ///
    /// @return how many events there were, or a negative errno
    int takeEvents(long channel);

    /// `ibv_destroy_comp_channel`
    int destroyChannel(long channel);

    /// `ibv_create_cq`
    long createCq(long context, int entries, long channel);

    /// `ibv_poll_cq`
    ///
    /// @param wcs room for `most` completions
    /// @return how many there are, negative on failure
    int pollCq(long cq, int most, long wcs);

    /// `ibv_req_notify_cq`, for every completion.
    ///
    /// @return 0 or an errno
    int requestNotification(long cq);

    /// `ibv_destroy_cq`
    int destroyCq(long cq);

    /// `ibv_create_qp` of type RC, both of whose queues complete into one completion queue; send
    /// requests complete silently unless flagged.
    long createQp(long pd, long cq, VerbsQueuePairs.Capacity capacity);

    /// @return its 24-bit number
    int number(long qp);

    /// `ibv_modify_qp` to INIT: receives can be posted.
    ///
    /// @param access `IBV_ACCESS_` bits: what the far end may do
    void initialise(long qp, int port, int pkeyIndex, int access);

    /// `ibv_modify_qp` to RTR: what the far end sends arrives.
    void readyToReceive(long qp, VerbsQueuePairs.Receiving receiving);

    /// `ibv_modify_qp` to RTS: sends go out.
    void readyToSend(long qp, VerbsQueuePairs.Sending sending);

    /// `ibv_modify_qp` to ERR: everything posted completes as flushed, nothing of the peer's is
    /// served any more.
    ///
    /// @return 0 or the errno
    int fail(long qp);

    /// `ibv_post_send`
    ///
    /// @param wr the first request of a list
    /// @return 0 or an errno
    int postSend(long qp, long wr);

    /// `ibv_post_recv`
    ///
    /// @param wr the first request of a list
    /// @return 0 or an errno
    int postReceive(long qp, long wr);

    /// `ibv_destroy_qp`
    int destroyQp(long qp);

    /// The context's descriptor of asynchronous events, which does not block.
    int asyncDescriptor(long context);

    /// `ibv_get_async_event`, and `ibv_ack_async_event`.
    ///
    /// @return the next one, or null
    /// @throws io.telpher.TelpherException.NativeFailure when there will be no more
    @Nullable AsyncEvent asyncEvent(long context);
}
