package io.telpher.contract;

import org.junit.jupiter.api.Nested;

/// The contract of what ends: receives, regions, connections, endpoints, and peers that stop, die
/// or turn into another program. [ContractTest] says where each topic runs.
class EndingsContractTest {
    @Nested
    class Advert extends AdvertContract {}

    @Nested
    class Revocation extends RevocationContract {}

    @Nested
    class Lifecycle extends LifecycleContract {}

    @Nested
    class Deadline extends DeadlineContract {}

    @Nested
    class Standstill extends StandstillContract {}

    @Nested
    class Death extends DeathContract {}

    @Nested
    class DeathForms extends DeathFormsContract {}

    @Nested
    class Exec extends ExecContract {}
}
