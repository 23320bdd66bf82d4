package io.telpher.contract;

import org.junit.jupiter.api.Nested;

/// The whole contract, each topic on every path and in every place that it has
/// ([Setting.Provider]).
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
    class Revocation extends RevocationContract {}

    @Nested
    class Lifecycle extends LifecycleContract {}

    @Nested
    class Endurance extends EnduranceContract {}

    @Nested
    class Deadline extends DeadlineContract {}

    @Nested
    class Death extends DeathContract {}

    @Nested
    class DeathForms extends DeathFormsContract {}

    @Nested
    class Exec extends ExecContract {}
}
