package io.telpher.contract;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.util.Arrays;
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
    /// The path of a test class that nests the contracts.
    @Retention(RetentionPolicy.RUNTIME)
    @Target(ElementType.TYPE)
    @interface On {
        /// @return the path
        TestPath value();
    }

    /// Where the peers of a contract live, for contracts that do not make sense everywhere.
    @Retention(RetentionPolicy.RUNTIME)
    @Target(ElementType.TYPE)
    @Inherited
    @interface In {
        /// @return the places
        Place[] value();
    }

    @Override
    public String toString() {
        return path.path()
                + switch (place) {
                    case ONE -> " in one process";
                    case TWO -> " between two processes";
                    case NETNS -> " between two network namespaces";
                };
    }

    /// Starts the peer's side.
    Peer startPeer() {
        return switch (place) {
            case ONE -> new LocalPeer();
            case TWO -> PeerProcess.start();
            case NETNS -> {
                assumeTrue(Namespaces.missing() == null, Namespaces.missing());
                yield PeerProcess.start(Namespaces.contract().exec("b"));
            }
        };
    }

    /// Gives each contract class the settings of the class that it is nested in.
    static final class Provider implements ArgumentsProvider {
        @Override
        public Stream<? extends Arguments> provideArguments(
                ParameterDeclarations parameters, ExtensionContext context) {
            Class<?> contract = context.getRequiredTestClass();
            TestPath path = contract.getEnclosingClass().getAnnotation(On.class).value();
            In in = contract.getAnnotation(In.class);
            Place[] places = in == null ? Place.values() : in.value();
            return Arrays.stream(places)
                    .filter(p -> p == Place.ONE || path.crossesProcesses())
                    .filter(p -> p != Place.NETNS || path == TestPath.TCP)
                    .map(p -> Arguments.of(new Setting(path, p)));
        }
    }
}
