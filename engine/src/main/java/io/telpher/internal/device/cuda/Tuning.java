package io.telpher.internal.device.cuda;

import io.telpher.Device;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.GpuVariables;
import io.telpher.internal.ffi.linux.Environment;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// What makes a copy, a copy engine or a kernel, and how much goes out at once. Each number has
/// a system property, `telpher.cuda.` and the name that stands at the parameter, in bytes or
/// pieces.
///
/// @param kernels `kernels`: whether kernels may copy at all; false with
///     `NCCL_P2P_USE_CUDA_MEMCPY=1`
/// @param cuMem `cumem`: whether memory comes from `cuMemCreate`; false with
///     `TELPHER_CUMEM_ENABLE=0` or `NCCL_CUMEM_ENABLE=0`
/// @param probe `probe`: whether two devices are tried before their word is believed
///     ([PeerProbe]); false with `TELPHER_P2P_PROBE=0`
/// @param probeSeconds `probe.seconds`: how long the copies of such a trial may take; its contexts
///     and kernels are there by then
/// @param kernelBytes `kernel.bytes`: below it, a job inside a GPU or between GPUs goes by
///     kernel. A copy engine starts in about 5 us and a kernel in 2, and both reach the rate of
///     NVLink, so the kernel's lead is gone when a job takes some 20 us; kernels take
///     multiprocessors from others
/// @param kernelPiece `kernel.piece`: a job of several pieces goes by kernel below this mean
///     size, whatever it is in all: an engine needs 1 to 2 us for each piece (0.7 to 1.1 us
///     measured on two H200, against 2.5 us for 1 MiB at the rate of NVLink)
/// @param viaKernelBytes `kernel.via.bytes`: the same for jobs between two other devices: all of
///     them, if nobody says otherwise. A kernel's bytes pass through no buffer, so none are made
///     then: between two H200 over a third 40 us for 8 MiB and 329 GB/s for 128 MiB in flight, by
///     engines 96 us and 152 GB/s
/// @param hostBytes `kernel.host.bytes`: the same for jobs between a GPU and the host: over
///     PCIe an engine has the full rate from small sizes on
/// @param hostPiece `kernel.host.piece`: the mean size for jobs of several pieces to or from the
///     host
/// @param lone `kernel.lone`: whether a job of one piece that comes alone goes by kernel, too:
///     a copy engine was there sooner (7.4 us against 10.7 for 8 bytes to another H200, 11.3
///     against 14.3 for 1 MiB); what comes while others are under way can share a kernel's
///     launch
/// @param blocks `kernel.blocks`: most blocks of one launch: 64 move 1 MiB over NVLink in less
///     than 4 us (measured with PyTorch's copies on H200); each takes a part of one
///     multiprocessor
/// @param blockBytes `kernel.block.bytes`: bytes for which another block is worth its start
/// @param threads `kernel.threads`: of a block; a multiple of 32. 256 always work, more where
///     the kernels' registers leave room for them ([#checkThreads]): compiled for an H200 (sm_90)
///     they take 128 of 65,536, so 512
/// @param kernelWindow `kernel.window`: launches of kernels under way before small jobs are
///     gathered. Two: while one copies the next is on its way
/// @param engineWindow `engine.window`: the same for copy engines, whose launches cost nothing
///     while they wait
/// @param engineStreams `engine.streams`: streams of copy engines that launches go to in turn
/// @param splitBytes `engine.split`: from this size on a piece is halved and copied on two
///     streams; 0 for never
/// @param viaBytes `via.bytes`: size of a buffer for what goes between two other devices: large
///     enough that a copy takes several times as long as its start (11 us at the rate of NVLink)
/// @param viaBuffers `via.buffers`: how many there are: one is filled, one is emptied, and neither
///     side waits for the other's start
/// @param askBytes `engine.ask.bytes`: up to this size a copy by an engine that is alone has no
///     flag behind it: its stream is asked until it has ended. Longer ones would have the driver
///     asked for long
/// @param gatherBytes `gather.bytes`: what is gathered goes out without waiting for the window
///     from this size on: then it pays for its launch
/// @param holdPieces `hold.pieces`: what is posted as a list is held back until it has so many
///     pieces: as many as travel in a launch's parameters. Then it pays for its launch, and the
///     device need not wait for the rest
/// @param holdBytes `hold.bytes`: the same, by bytes: what NVLink moves in about the time that a
///     launch takes
/// @param holdNanos `hold.us`: microseconds after which whoever polls lets it go: much longer
///     than the posting of such a list, for the thread that posts it may have been stopped
/// @param stageBytes `stage.bytes`: size of a page-locked buffer for frames: 20 us over PCIe 5, so
///     that the start of a copy is small beside it
/// @param stageBuffers `stage.buffers`: how many a lane has in each direction: copy out, record,
///     copy in and confirmation of one take as long as several copies. 64 MiB between two H200
///     through a ring: 44 GB/s, with 8 of them 42, with 4 32, with 8 of 512 KiB 31 to 36
/// @param agentBytes `agent.bytes`: jobs of one piece up to this size, inside a GPU or between
///     GPUs, go to the [Agent] while few are under way; 0 for never. It takes a
///     multiprocessor's place while it is there, and whoever waits for the whole device waits
///     for it, too
/// @param agentWindow `agent.window`: jobs that it has before others are gathered for a kernel:
///     it carries out one after the other
/// @param agentIdle `agent.idle.us`: microseconds after which it leaves when nothing comes
/// @param agentLife `agent.life.us`: microseconds after which it leaves in any case
record Tuning(
        boolean kernels,
        boolean cuMem,
        boolean probe,
        int probeSeconds,
        long kernelBytes,
        long kernelPiece,
        long viaKernelBytes,
        long hostBytes,
        long hostPiece,
        boolean lone,
        int blocks,
        long blockBytes,
        int threads,
        int kernelWindow,
        int engineWindow,
        int engineStreams,
        long splitBytes,
        int viaBytes,
        int viaBuffers,
        long askBytes,
        long gatherBytes,
        int holdPieces,
        long holdBytes,
        long holdNanos,
        int stageBytes,
        int stageBuffers,
        long agentBytes,
        int agentWindow,
        long agentIdle,
        long agentLife) {
    private static final String PREFIX = "telpher.cuda.";

    /// The tuning of this process, now.
    ///
    /// @throws IllegalArgumentException for a property, or a variable of Telpher's own, that makes
    ///     no sense
    static Tuning current() {
        return of(Environment::getenv);
    }

    /// @param environment gives a variable's value, or null
    static Tuning of(Function<String, @Nullable String> environment) {
        return new Tuning(
                number("kernels", 1, 0, 1) == 1
                        && GpuVariables.nccl(environment, "P2P_USE_CUDA_MEMCPY").orElse(0) == 0,
                number("cumem", 1, 0, 1) == 1
                        && GpuVariables.number(environment, "CUMEM_ENABLE", 0, 1, 1) != 0,
                number("probe", 1, 0, 1) == 1
                        && GpuVariables.own(environment, "P2P_PROBE", 0, 1).orElse(1) == 1,
                (int) number("probe.seconds", 60, 1, 600),
                number("kernel.bytes", 8 << 20, 0, CopyQueue.LARGEST),
                number("kernel.piece", 1 << 20, 0, CopyQueue.LARGEST),
                number("kernel.via.bytes", CopyQueue.LARGEST + 1, 0, CopyQueue.LARGEST + 1),
                number("kernel.host.bytes", 32 << 10, 0, CopyQueue.LARGEST),
                number("kernel.host.piece", 32 << 10, 0, CopyQueue.LARGEST),
                number("kernel.lone", 0, 0, 1) == 1,
                (int) number("kernel.blocks", 64, 1, 1024),
                number("kernel.block.bytes", 16 << 10, 1 << 10, 1 << 30),
                (int) number("kernel.threads", 256, 32, 1024) / 32 * 32,
                (int) number("kernel.window", 2, 1, 16),
                (int) number("engine.window", 16, 1, 256),
                (int) number("engine.streams", 2, 1, 16),
                number("engine.split", 0, 0, Long.MAX_VALUE),
                (int) number("via.bytes", 4 << 20, 64 << 10, 256 << 20),
                (int) number("via.buffers", 4, 2, 64),
                number("engine.ask.bytes", 4 << 20, 0, CopyQueue.LARGEST),
                number("gather.bytes", 4 << 20, 1, CopyQueue.LARGEST),
                (int) number("hold.pieces", Launch.FEW_PIECES, 1, 1 << 20),
                number("hold.bytes", 1 << 20, 1, CopyQueue.LARGEST),
                1000 * number("hold.us", 200, 0, 60_000_000),
                (int) number("stage.bytes", 1 << 20, 64 << 10, 1 << 20),
                (int) number("stage.buffers", 16, 2, 64),
                number("agent.bytes", 0, 0, 1 << 20),
                (int) number("agent.window", 4, 1, 16),
                number("agent.idle.us", 2_000, 1, 1_000_000),
                number("agent.life.us", 50_000, 1, 1_000_000));
    }

    /// Whether a kernel makes this job's copies.
    ///
    /// @param alone whether no other job is under way
    boolean byKernel(CopyQueue.Way way, int pieces, long bytes, boolean alone) {
        boolean once = way != CopyQueue.Way.VIA; // between two others engines copy twice
        if (!kernels || (once && alone && !lone && pieces == 1)) {
            return false;
        }
        if (!once && viaByKernel()) {
            return true;
        }
        boolean host = way == CopyQueue.Way.HOST;
        if (bytes < (host ? hostBytes : once ? kernelBytes : viaKernelBytes)) {
            return true;
        }
        return pieces > 1 && bytes / pieces < (host ? hostPiece : kernelPiece);
    }

    /// Whether kernels, where there are some, make all copies between two other devices: the device
    /// needs no buffers for them.
    boolean viaByKernel() {
        return kernels && viaKernelBytes > CopyQueue.LARGEST;
    }

    /// Blocks for a launch of this much work, as [Launch#work] counts it.
    int blocksFor(long work) {
        return Math.clamp(Math.ceilDiv(work, blockBytes), 1, blocks);
    }

    /// Refuses blocks that the device has no room for: the driver would refuse every launch.
    ///
    /// @param most the most threads of a block there, known when the kernels are loaded
    /// @throws IllegalArgumentException for more
    void checkThreads(int most, Device device) {
        if (threads > most) {
            throw new IllegalArgumentException(
                    unfit("kernel.threads", String.valueOf(threads), 32, most) + " on " + device);
        }
    }

    private static long number(String name, long unset, long least, long most) {
        @Nullable String text = System.getProperty(PREFIX + name);
        if (text == null) {
            return unset;
        }
        try {
            long value = Long.parseLong(text.strip());
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException e) {
            // Said below, with the limits.
        }
        throw new IllegalArgumentException(unfit(name, text, least, most));
    }

    private static String unfit(String name, String text, long least, long most) {
        return "-D%s%s=%s: a number from %d to %d is needed"
                .formatted(PREFIX, name, text, least, most);
    }
}
