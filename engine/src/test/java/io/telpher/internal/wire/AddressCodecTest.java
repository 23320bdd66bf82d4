package io.telpher.internal.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.EndpointAddress;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class AddressCodecTest {
    private static final byte[] SECRET = "0123456789abcdef".getBytes(StandardCharsets.UTF_8);

    private static AddressCodec.Address random(Random random) {
        List<Locator> locators = new ArrayList<>();
        for (int i = random.nextInt(5); i > 0; i--) {
            byte[] data = new byte[random.nextInt(300)];
            random.nextBytes(data);
            locators.add(new Locator("t" + i, data, "a\u00e9\u20ac\ud83d\ude00\ufffd" + i));
        }
        byte[] secret = new byte[random.nextInt(64)];
        random.nextBytes(secret);
        return new AddressCodec.Address(
                secret,
                new PeerAddress(
                        random.nextLong(),
                        new HostIdentity(
                                "boot-" + random.nextInt(),
                                random.nextInt(),
                                random.nextLong(),
                                random.nextLong()),
                        List.copyOf(locators)));
    }

    @Test
    void whatIsEncodedIsDecoded() {
        long seed = Long.getLong("telpher.test.seed", System.nanoTime());
        System.out.println("AddressCodecTest seed " + seed);
        Random random = new Random(seed);
        for (int i = 0; i < 500; i++) {
            AddressCodec.Address address = random(random);
            AddressCodec.Address decoded = AddressCodec.decode(AddressCodec.encode(address));
            assertThat(decoded.peer()).isEqualTo(address.peer());
            assertThat(decoded.secret()).isEqualTo(address.secret());
        }
    }

    @Test
    void damagedAddressesAreRefusedOrDecodedButNeverAnythingElse() {
        long seed = Long.getLong("telpher.test.seed", System.nanoTime());
        System.out.println("AddressCodecTest seed " + seed);
        Random random = new Random(seed);
        for (int i = 0; i < 20_000; i++) {
            byte[] bytes = AddressCodec.encode(random(random));
            if (random.nextBoolean()) {
                bytes = Arrays.copyOf(bytes, random.nextInt(bytes.length));
            }
            for (int flips = random.nextInt(4); flips > 0 && bytes.length > 0; flips--) {
                bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
            }
            try {
                AddressCodec.decode(bytes);
            } catch (IllegalArgumentException expected) {
                assertThat(expected).hasMessageContaining("address");
            }
        }
    }

    @Test
    void theTextFormLeadsBackAndToStringHidesTheSecret() {
        EndpointAddress address = EndpointAddress.of("example.org", 7070, SECRET);
        assertThat(EndpointAddress.parse(address.text())).isEqualTo(address);
        assertThat(address.toString()).contains("example.org:7070").doesNotContain("0123456789");
        assertThat(EndpointAddress.of("fe80::1%eth0", 1, SECRET).toString())
                .contains("[fe80::1%eth0]:1");
    }

    @Test
    void whatIsDecodedCanBeEncodedAgain() {
        HostIdentity host = new HostIdentity("x".repeat(20_000), 1, 2, 3);
        byte[] bytes =
                AddressCodec.encode(
                        new AddressCodec.Address(SECRET, new PeerAddress(1, host, List.of())));
        assertThat(AddressCodec.encode(AddressCodec.decode(bytes))).isEqualTo(bytes);
        Arrays.fill(bytes, bytes.length - 22 - 20_000, bytes.length - 22, (byte) -1);
        assertThatThrownBy(() -> AddressCodec.decode(bytes))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("not UTF-8");
        assertThatThrownBy(() -> AddressCodec.decode(Arrays.copyOf(bytes, 70_000)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("70000 bytes");
        assertThatThrownBy(() -> EndpointAddress.of("h".repeat(65_000), 1, SECRET))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("endpoint address");
    }

    @Test
    void nonsenseIsNamed() {
        assertThatThrownBy(() -> EndpointAddress.parse("10.0.0.1:8080"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage(
                        "'10.0.0.1:8...' of 13 characters is no endpoint address: it does not start"
                                + " with 'telpher1:'; for HOST:PORT use EndpointAddress.of");
        assertThatThrownBy(() -> EndpointAddress.of("host", 0, SECRET))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("port 0");
        assertThatThrownBy(() -> EndpointAddress.of("host", 1, new byte[15]))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("a secret has 16 to 64 bytes, this one has 15");
    }

    /// It is named by its start, in which nothing of the secret stands.
    @Test
    void aDamagedTextIsNamedWithoutItsSecret() {
        String text = EndpointAddress.of("host", 1, SECRET).text();
        assertThatThrownBy(() -> EndpointAddress.parse(text.replace('A', '!')))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage(
                        "'telpher1:VExQQQE!E!...' of %d characters is no endpoint address: Illegal"
                                + " base64 character 21; pass on all that text() gave, unchanged",
                        text.length());
        String cut = text.substring(0, 41);
        assertThatThrownBy(() -> EndpointAddress.parse(cut))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage(
                        "'telpher1:VExQQQEAEA...' of 41 characters is no endpoint address: this"
                                + " endpoint address is cut short: 24 bytes; pass on all that"
                                + " text() gave, unchanged");
    }
}
