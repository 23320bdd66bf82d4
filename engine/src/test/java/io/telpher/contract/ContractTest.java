package io.telpher.contract;

import org.junit.jupiter.api.Nested;

/// The contract, each topic on every path and in every place that it has ([Setting.Provider]).
/// What is about endings stands in [EndingsContractTest]: two classes, so that two JVMs share them.
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

    @Nested
    class Endurance extends EnduranceContract {}
}
