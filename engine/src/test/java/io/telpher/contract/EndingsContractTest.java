package io.telpher.contract;

import org.junit.jupiter.api.Nested;

/// The contract of what ends: receives, regions, connections and endpoints, and of peers that stop.
/// [ContractTest] says where each topic runs.
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
}
