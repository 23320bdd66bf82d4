package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class TurnsTest {
    private final StringBuilder sent = new StringBuilder();
    private final Scripted one = new Scripted('1');
    private final Scripted other = new Scripted('2');
    private final Turns turns = new Turns(one, other);

    /// A side with so many frames that can go out now.
    private final class Scripted implements Turns.Side {
        private final char name;
        int frames;
        boolean high;

        Scripted(char name) {
            this.name = name;
        }

        @Override
        public boolean isHigh() {
            return high;
        }

        @Override
        public boolean next() {
            if (frames == 0) {
                return false;
            }
            frames--;
            sent.append(name);
            return true;
        }
    }

    /// @return who has sent so many frames, in order
    private String send(int frames) {
        sent.setLength(0);
        for (int i = 0; i < frames && turns.next(); i++) {}
        return sent.toString();
    }

    @Test
    void bothTakeTurns() {
        one.frames = 100;
        other.frames = 100;
        assertThat(send(6)).isEqualTo("121212");
        assertThat(send(3)).isEqualTo("121");
        assertThat(send(3)).isEqualTo("212");
    }

    /// Whoever has nothing to send does not keep the other one waiting.
    @Test
    void whoHasNothingLeavesTheLaneToTheOther() {
        other.frames = 3;
        assertThat(send(5)).isEqualTo("222");
        one.frames = 2;
        assertThat(send(5)).isEqualTo("11");
        assertThat(turns.next()).isFalse();
    }

    /// What has become ready waits for one frame of the other's at most, on both sides.
    @Test
    void whoComesBackIsNext() {
        one.frames = 100;
        assertThat(send(5)).isEqualTo("11111");
        other.frames = 1;
        assertThat(send(3)).isEqualTo("211");
        one.frames = 0;
        other.frames = 100;
        assertThat(send(5)).isEqualTo("22222");
        one.frames = 1;
        assertThat(send(3)).isEqualTo("122");
    }

    @Test
    void whatIsUrgentGoesFirstAndEqualsTakeTurns() {
        one.frames = 100;
        other.frames = 3;
        other.high = true;
        assertThat(send(5)).isEqualTo("22211");
        other.frames = 100;
        one.high = true;
        assertThat(send(4)).isEqualTo("2121");
    }
}
