package io.telpher.bootstrap;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.KDF;
import javax.crypto.SecretKey;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.HKDFParameterSpec;

/// Seals addresses, which hold secrets, so that only the job's ranks can read or make them:
/// AES-256-GCM with a random nonce, the key derived from the job's secret by HKDF-SHA-256. Job,
/// rank, world and incarnation are authenticated with the address. Thread-safe.
final class Seal {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final String CIPHER = "AES/GCM/NoPadding";
    private static final int NONCE = 12;
    private static final int TAG_BITS = 128;

    private final SecretKey key;
    private final String job;

    /// Opens one record after another: to make one takes longer than to open a record. Guarded by
    /// itself.
    private final Cipher opener;

    Seal(byte[] secret, String job) {
        this.job = job;
        try {
            HKDFParameterSpec parameters =
                    HKDFParameterSpec.ofExtract()
                            .addIKM(secret)
                            .thenExpand(
                                    "telpher rendezvous address".getBytes(StandardCharsets.UTF_8),
                                    32);
            key = KDF.getInstance("HKDF-SHA256").deriveKey("AES", parameters);
            opener = Cipher.getInstance(CIPHER);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(
                    "every JDK from 25 on has HKDF-SHA256 and " + CIPHER, e);
        }
    }

    byte[] seal(int rank, int world, EndpointAddress address) {
        return seal(rank, world, address.incarnation(), address.toBytes());
    }

    byte[] seal(int rank, int world, long incarnation, byte[] address) {
        byte[] nonce = new byte[NONCE];
        RANDOM.nextBytes(nonce);
        try {
            Cipher cipher = Cipher.getInstance(CIPHER);
            cipher.init(Cipher.ENCRYPT_MODE, key, new GCMParameterSpec(TAG_BITS, nonce));
            cipher.updateAAD(context(rank, world, incarnation));
            byte[] sealed = cipher.doFinal(address);
            return ByteBuffer.allocate(NONCE + sealed.length).put(nonce).put(sealed).array();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("every JDK has " + CIPHER, e);
        }
    }

    /// @throws TelpherException.AccessDenied when it was sealed with another secret or for another
    ///     record
    EndpointAddress open(Answer.Entry entry) {
        byte[] sealed = entry.sealed();
        try {
            if (sealed.length > NONCE) {
                return EndpointAddress.ofBytes(open(entry, sealed));
            }
        } catch (AEADBadTagException | IllegalArgumentException e) {
            // Told below.
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("every JDK has " + CIPHER, e);
        }
        throw new TelpherException.AccessDenied(
                "rank %d of job '%s' (epoch %d) has announced itself with another secret: give all ranks the same TELPHER_SECRET"
                        .formatted(entry.rank(), job, entry.epoch()));
    }

    private byte[] open(Answer.Entry entry, byte[] sealed) throws GeneralSecurityException {
        synchronized (opener) {
            opener.init(Cipher.DECRYPT_MODE, key, new GCMParameterSpec(TAG_BITS, sealed, 0, NONCE));
            opener.updateAAD(context(entry.rank(), entry.world(), entry.incarnation()));
            return opener.doFinal(sealed, NONCE, sealed.length - NONCE);
        }
    }

    private byte[] context(int rank, int world, long incarnation) {
        byte[] name = job.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(16 + name.length)
                .putInt(rank)
                .putInt(world)
                .putLong(incarnation)
                .put(name)
                .array();
    }
}
