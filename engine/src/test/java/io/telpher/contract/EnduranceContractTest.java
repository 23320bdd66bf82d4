package io.telpher.contract;

import org.junit.jupiter.api.Nested;

/// The contract of what is done a million times. [ContractTest] says where it runs.
class EnduranceContractTest {
    @Nested
    class Endurance extends EnduranceContract {}
}
