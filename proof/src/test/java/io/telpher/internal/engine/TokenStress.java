package io.telpher.internal.engine;

import java.lang.invoke.VarHandle;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/// A poster leaves work to the holder of a token, who gives it back and looks again: one of the two
/// does it.
@JCStressTest
@Outcome(
        id = {"1, 0", "0, 1", "1, 1"},
        expect = Expect.ACCEPTABLE,
        desc = "somebody saw it")
@Outcome(expect = Expect.FORBIDDEN, desc = "the work is lost")
@State
public class TokenStress {
    private final Token token = new Token(NativePlatform.HERE);
    private int work;

    /// The holder has it from the start.
    public TokenStress() {
        token.take();
    }

    /// As a poster: work, then the token, then a fence and the token again.
    @Actor
    public void poster(II_Result r) {
        work = 1;
        if (!token.tryTake()) {
            VarHandle.fullFence();
            if (!token.tryTake()) {
                return;
            }
        }
        r.r1 = work;
    }

    /// As the holder.
    @Actor
    public void holder(II_Result r) {
        token.giveBack();
        r.r2 = work;
    }
}
