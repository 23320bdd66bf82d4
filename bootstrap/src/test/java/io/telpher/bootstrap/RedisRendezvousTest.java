package io.telpher.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import java.io.File;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The contract at a Redis server, and what only that one has.
class RedisRendezvousTest extends RendezvousContract {
    @TempDir static Path folder;
    private static RedisServer server;

    @BeforeAll
    static void startServer() {
        server = RedisServer.start(folder);
    }

    @AfterAll
    static void stopServer() {
        if (server != null) {
            server.close();
        }
    }

    @Override
    URI server() {
        return server.uri();
    }

    @Override
    void restartServer() {
        server.restart();
    }

    @Override
    URI at(int port) {
        return URI.create("redis://127.0.0.1:" + port);
    }

    /// The store cannot tell, but the others can.
    @Test
    void recordWithAnotherSecretIsNamed() {
        byte[] other = "another secret, just as long".getBytes(StandardCharsets.UTF_8);
        try (Rendezvous good =
                        Rendezvous.open(
                                RendezvousOptions.of(server(), "named", Fixtures.secret()));
                Rendezvous bad = Rendezvous.open(RendezvousOptions.of(server(), "named", other))) {
            Future<Throwable> wrong =
                    Fixtures.start(
                            () -> {
                                try {
                                    bad.join(1, 2, Fixtures.address(), Fixtures.SOON);
                                    return new AssertionError("joined");
                                } catch (TelpherException e) {
                                    return e;
                                }
                            });
            assertThatThrownBy(() -> good.join(0, 2, Fixtures.address(), Fixtures.SOON))
                    .isInstanceOf(TelpherException.AccessDenied.class)
                    .hasMessageContaining("rank 1 of job 'named'")
                    .hasMessageContaining("TELPHER_SECRET");
            assertThat(Fixtures.result(wrong)).isInstanceOf(TelpherException.AccessDenied.class);
        }
    }

    @Test
    void wrongPasswordIsTold(@TempDir Path data) {
        try (RedisServer locked = RedisServer.start(data, "--requirepass", "right")) {
            for (String user : new String[] {"", ":wrong@"}) {
                URI uri = URI.create("redis://" + user + "127.0.0.1:" + locked.port());
                try (Rendezvous client =
                        Rendezvous.open(RendezvousOptions.of(uri, "x", Fixtures.secret()))) {
                    assertThatThrownBy(() -> client.join(0, 1, Fixtures.address(), Fixtures.SOON))
                            .isInstanceOf(TelpherException.AccessDenied.class)
                            .hasMessageContaining("password")
                            .hasMessageNotContaining("wrong@");
                }
            }
            URI uri = URI.create("redis://:right@127.0.0.1:" + locked.port() + "/1");
            try (Rendezvous client =
                    Rendezvous.open(RendezvousOptions.of(uri, "x", Fixtures.secret()))) {
                assertThat(client.join(0, 1, Fixtures.address(), Fixtures.SOON)).hasSize(1);
            }
        }
    }

    @Test
    void missingJedisIsNamed() {
        String classPath =
                Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                        .filter(entry -> !entry.contains("jedis"))
                        .collect(Collectors.joining(File.pathSeparator));
        try (Child child = Child.java(classPath, RankMain.class, server(), "x", 0, 1, 1000)) {
            assertThat(child.hear())
                    .contains("Unsupported", "redis.clients:jedis", "--add-modules");
        }
    }
}
