package io.telpher.contract;

import org.junit.jupiter.api.Nested;

/// The contract, each topic on every path and in every place that it has ([Setting.Provider]).
/// What is about endings stands in [EndingsContractTest], what is about deaths in
/// [DeathContractTest], what takes long in [EnduranceContractTest]: several classes for several
/// JVMs.
class ContractTest {
    @Nested
    class WriteRead extends WriteReadContract {}

    @Nested
    class Vector extends VectorContract {}

    @Nested
    class Message extends MessageContract {}

    @Nested
    class Notification extends NotificationContract {}

    @Nested
    class Style extends StyleContract {}

    @Nested
    class Token extends TokenContract {}

    @Nested
    class Admission extends AdmissionContract {}

    @Nested
    class Access extends AccessContract {}
}
