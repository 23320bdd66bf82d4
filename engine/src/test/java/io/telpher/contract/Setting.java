package io.telpher.contract;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.internal.ffi.cuda.FakeGpu;
import io.telpher.internal.transport.verbs.RdmaNode;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.ArgumentsProvider;
import org.junit.jupiter.params.support.ParameterDeclarations;

/// What a contract class runs on.
///
/// @param path the path
/// @param place where the peer lives
record Setting(TestPath path, Place place) {
    /// Where the peers of a contract live, for contracts that do not make sense everywhere.
    @Retention(RetentionPolicy.RUNTIME)
    @Target(ElementType.TYPE)
    @Inherited
    @interface In {
        /// @return the places
        Place[] value();
    }

    /// Paths that differ from others in how bytes are copied alone, for contracts that are about
    /// more: these run on them only where `-Dtelpher.test.path` names them.
    @Retention(RetentionPolicy.RUNTIME)
    @Target(ElementType.TYPE)
    @interface OnRequest {
        /// @return the paths
        TestPath[] value();
    }

    @Override
    public String toString() {
        return (path.isOnGpus() ? path.name() : path.path())
                + switch (place) {
                    case ONE -> " in one process";
                    case CHECKED -> " in one process, with checksums";
                    case TWO -> " between two processes";
                    case NETNS -> " between two network namespaces";
                };
    }

    /// Starts the peer's side.
    Peer startPeer() {
        return switch (place) {
            case ONE, CHECKED -> new LocalPeer();
            case TWO ->
                    PeerProcess.start(
                            path.isOnGpus() ? FakeGpu.jvmArguments() : List.of(), RdmaNode.other());
            case NETNS -> {
                assumeTrue(Namespaces.missing() == null, Namespaces.missing());
                yield PeerProcess.start(Namespaces.contract().exec("b"));
            }
        };
    }

    /// Gives each contract class all paths, in all places that both have; `-Dtelpher.test.path=cma`
    /// leaves one path.
    static final class Provider implements ArgumentsProvider {
        private static final String ONLY = System.getProperty("telpher.test.path", "");

        @Override
        public Stream<? extends Arguments> provideArguments(
                ParameterDeclarations parameters, ExtensionContext context) {
            In in = context.getRequiredTestClass().getAnnotation(In.class);
            List<Place> places = List.of(in == null ? Place.values() : in.value());
            OnRequest rare = context.getRequiredTestClass().getAnnotation(OnRequest.class);
            List<TestPath> onRequest = rare == null ? List.of() : List.of(rare.value());
            boolean onGpus = context.getTags().contains(FakeGpu.TAG);
            List<Arguments> all =
                    Arrays.stream(TestPath.values())
                            .filter(path -> path.isOnGpus() == onGpus)
                            .filter(
                                    path ->
                                            ONLY.isEmpty()
                                                    ? !onRequest.contains(path)
                                                    : ONLY.equals(path.path()))
                            .flatMap(
                                    path ->
                                            path.places().stream()
                                                    .filter(places::contains)
                                                    .map(place -> new Setting(path, place)))
                            .map(Arguments::of)
                            .toList();
            if (all.isEmpty() && ONLY.isEmpty()) {
                throw new IllegalStateException(
                        context.getRequiredTestClass().getName()
                                + " runs on no path: its @In and @OnRequest leave none");
            }
            return all.stream();
        }
    }
}
