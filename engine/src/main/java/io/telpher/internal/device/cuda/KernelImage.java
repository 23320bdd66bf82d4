package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.Nvrtc;
import io.telpher.spi.Availability;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// The kernels as the driver loads them: compiled by NVRTC for one kind of device, and kept under
/// the user's cache folder, since that takes a second or more.
///
/// The file's name says what it was made from and for, so it is never out of date; it begins with
/// the SHA-256 of the rest. A damaged one is made anew. It is written aside and renamed, so any
/// number of processes may do so at once. Where it cannot be written each process compiles anew.
final class KernelImage {
    /// System property: a file with the kernels compiled already, for machines without NVRTC.
    static final String FILE_PROPERTY = "telpher.cuda.kernel.image";

    private static final String SOURCE = "kernels.cu";
    private static final int DIGEST = 32;

    private KernelImage() {}

    /// The kernels for a device of this compute capability, 10 * major + minor.
    ///
    /// @param driver the driver's version
    /// @throws TelpherException.Unsupported where they can neither be found nor compiled, with
    ///     the reason
    static byte[] load(int capability, int driver) {
        String file = System.getProperty(FILE_PROPERTY);
        if (file != null) {
            try {
                return Files.readAllBytes(Path.of(file));
            } catch (IOException e) {
                throw new TelpherException.Unsupported(
                        "-D%s=%s: %s".formatted(FILE_PROPERTY, file, e));
            }
        }
        if (Nvrtc.availability() instanceof Availability.Missing(String reason, String remedy)) {
            throw new TelpherException.Unsupported(reason + " (" + remedy + ")");
        }
        String source = source();
        String architecture = architecture(capability, Nvrtc.architectures());
        return load(source, architecture, CacheFolder.path(), driver);
    }

    static byte[] load(String source, String architecture, @Nullable Path folder, int driver) {
        if (folder == null) {
            return compile(source, architecture);
        }
        String name =
                "kernels-%s-%s-nvrtc%d-driver%d.image"
                        .formatted(
                                HexFormat.of()
                                        .formatHex(digest(source.getBytes(StandardCharsets.UTF_8)))
                                        .substring(0, 16),
                                architecture,
                                Nvrtc.version(),
                                driver);
        byte @Nullable [] kept = read(folder.resolve(name));
        if (kept != null) {
            return kept;
        }
        byte[] image = compile(source, architecture);
        write(folder.resolve(name), image);
        return image;
    }

    /// Machine code where the compiler knows the device, else code of the nearest older one that
    /// the driver translates.
    static String architecture(int capability, int[] known) {
        int best =
                Arrays.stream(known)
                        .filter(one -> one <= capability)
                        .max()
                        .orElseThrow(
                                () ->
                                        new TelpherException.Unsupported(
                                                ("this NVRTC knows no device as old as compute"
                                                                + " capability %d.%d: install an"
                                                                + " older one")
                                                        .formatted(
                                                                capability / 10, capability % 10)));
        return (best == capability ? "sm_" : "compute_") + best;
    }

    static String source() {
        try (InputStream in =
                Objects.requireNonNull(KernelImage.class.getResourceAsStream(SOURCE), SOURCE)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static byte[] compile(String source, String architecture) {
        long program = Nvrtc.create(source, SOURCE);
        try {
            int result =
                    Nvrtc.tryCompile(
                            program, List.of("--gpu-architecture=" + architecture, "--std=c++17"));
            if (result != 0) {
                throw new TelpherException.Unsupported(
                        "%s does not compile for %s: %s%n%s"
                                .formatted(
                                        SOURCE,
                                        architecture,
                                        Nvrtc.errorString(result),
                                        Nvrtc.log(program)));
            }
            return architecture.startsWith("sm_")
                    ? Nvrtc.cubin(program)
                    : Nvrtc.ptx(program).getBytes(StandardCharsets.UTF_8);
        } finally {
            Nvrtc.destroy(program);
        }
    }

    private static byte @Nullable [] read(Path file) {
        try {
            byte[] all = Files.readAllBytes(file);
            if (all.length <= DIGEST) {
                return null;
            }
            byte[] image = Arrays.copyOfRange(all, DIGEST, all.length);
            return Arrays.equals(digest(image), Arrays.copyOf(all, DIGEST)) ? image : null;
        } catch (IOException e) {
            return null;
        }
    }

    private static void write(Path file, byte[] image) {
        try {
            Files.createDirectories(file.getParent());
            Path aside = Files.createTempFile(file.getParent(), "kernels-", ".new");
            try {
                byte[] all = Arrays.copyOf(digest(image), DIGEST + image.length);
                System.arraycopy(image, 0, all, DIGEST, image.length);
                Files.write(aside, all);
                Files.move(
                        aside,
                        file,
                        StandardCopyOption.ATOMIC_MOVE,
                        StandardCopyOption.REPLACE_EXISTING);
            } finally {
                Files.deleteIfExists(aside);
            }
        } catch (IOException e) {
            System.getLogger("io.telpher.cuda")
                    .log(System.Logger.Level.DEBUG, "compiled kernels are not kept", e);
        }
    }

    private static byte[] digest(byte[] bytes) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError(e);
        }
    }
}
