package io.telpher.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.spi.Deadline;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The ledger in Java and the script in Redis give the same answers to the same requests.
class SameLedgerTest {
    private static final int REQUESTS = 4000;

    @Test
    void randomRequests(@TempDir Path folder) throws InterruptedException {
        Random dice = Fixtures.dice("randomRequests");
        try (RedisServer server = RedisServer.start(folder);
                Store redis = new RedisStore(server.uri())) {
            Ledger ledger = new Ledger(() -> 0, 1);
            Answer.Snapshot first =
                    (Answer.Snapshot)
                            redis.call(
                                    new Request.Changes("j", 0, -1, 0), Deadline.in(Fixtures.SOON));
            long redisInstance = first.instance();
            long revision = 0;
            for (int i = 0; i < REQUESTS; i++) {
                Request request = request(dice, revision);
                Answer expected = ask(ledger, request);
                Request same =
                        request instanceof Request.Changes c && c.instance() == 1
                                ? new Request.Changes(c.job(), redisInstance, c.after(), 0)
                                : request;
                Answer actual = redis.call(same, Deadline.in(Fixtures.SOON));
                if (actual instanceof Answer.Snapshot snapshot) {
                    redisInstance = snapshot.instance();
                    revision = snapshot.revision();
                }
                assertThat(text(actual)).as("%d: %s", i, request).isEqualTo(text(expected));
            }
        }
    }

    private static Request request(Random dice, long revision) {
        int rank = dice.nextInt(3);
        long incarnation = List.of(7L, -1L, Long.MIN_VALUE).get(dice.nextInt(3)) - rank;
        String barrier = List.of("a", "a:0", "0:a", "ä b").get(dice.nextInt(4));
        long ticket = dice.nextInt(3) - 1L;
        return switch (dice.nextInt(20)) {
            case 0, 1, 2, 3, 4 -> {
                int world = dice.nextInt(20) == 0 ? 4 : 3;
                byte[] sealed = new byte[dice.nextInt(20)];
                dice.nextBytes(sealed);
                long last = dice.nextInt(50) == 0 ? revision + 1000 : 0;
                yield new Request.Announce("j", rank, world, incarnation, last, 3_000_000, sealed);
            }
            case 5 -> new Request.Leave("j", rank, incarnation);
            case 6, 7, 8 -> new Request.Withdraw("j", barrier, rank, incarnation, ticket);
            case 9 -> new Request.Changes("j", 0, -1, 0);
            case 10 -> new Request.Changes("j", 1, revision + 1 - dice.nextInt(5), 0);
            default -> new Request.Arrive("j", barrier, rank, incarnation, ticket);
        };
    }

    private static Answer ask(Ledger ledger, Request request) throws InterruptedException {
        return switch (request) {
            case Request.Announce r -> ledger.announce(r);
            case Request.Leave r -> ledger.leave(r);
            case Request.Arrive r -> ledger.arrive(r);
            case Request.Withdraw r -> ledger.withdraw(r);
            case Request.Changes r -> ledger.changes(r, "test");
        };
    }

    /// What can be compared: not the instance, and not what is left of a lease.
    private static Object text(Answer answer) {
        return switch (answer) {
            case Answer.Held held -> List.of(held.incarnation(), held.epoch());
            case Answer.OtherWorld other -> "world " + other.world();
            case Answer.Snapshot snapshot ->
                    snapshot.revision()
                            + " "
                            + snapshot.entries().stream()
                                    .map(SameLedgerTest::text)
                                    .sorted()
                                    .toList();
            case Answer.Events events ->
                    events.changes().stream()
                            .map(
                                    change ->
                                            change instanceof Answer.RecordChange record
                                                    ? record.revision()
                                                            + " "
                                                            + record.kind()
                                                            + text(record.entry())
                                                    : change.toString())
                            .toList();
            default -> answer;
        };
    }

    private static String text(Answer.Entry entry) {
        return "%d/%d %x %d %s"
                .formatted(
                        entry.rank(),
                        entry.world(),
                        entry.incarnation(),
                        entry.epoch(),
                        java.util.HexFormat.of().formatHex(entry.sealed()));
    }
}
