package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import io.telpher.internal.wire.AddressCodec;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

/// Who is let in.
abstract class AdmissionContract extends Contract {
    @Test
    void aWrongSecretIsDeniedAndHarmsNobody() {
        AddressCodec.Address right =
                AddressCodec.decode(peer.<byte[]>run(self -> self.endpoint().address().toBytes()));
        byte[] secret = right.secret().clone();
        secret[3] ^= 1;
        for (byte[] wrong : List.of(secret, new byte[16], new byte[64])) {
            EndpointAddress address =
                    EndpointAddress.ofBytes(
                            AddressCodec.encode(new AddressCodec.Address(wrong, right.peer())));
            long start = System.nanoTime();
            assertThatThrownBy(() -> endpoint().connect(address, Participant.LIMIT))
                    .isInstanceOf(TelpherException.AccessDenied.class)
                    .extracting(Throwable::getMessage)
                    .asString()
                    .doesNotContain(HexFormat.of().formatHex(right.secret()));
            assertThat(Duration.ofNanos(System.nanoTime() - start))
                    .isLessThan(Duration.ofSeconds(3));
        }
        peer.tell(
                self ->
                        assertThatThrownBy(() -> self.endpoint().accept(Duration.ofMillis(200)))
                                .isInstanceOf(TelpherException.TimedOut.class));
        Couple.checkWorks(here, peer);
        reconnect();
        Couple.checkWorks(here, peer);
    }
}
