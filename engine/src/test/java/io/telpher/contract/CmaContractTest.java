package io.telpher.contract;

import org.junit.jupiter.api.Nested;

/// The contract on the path `cma`.
@Setting.On(TestPath.CMA)
class CmaContractTest {
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
    class Exec extends ExecContract {}
}
