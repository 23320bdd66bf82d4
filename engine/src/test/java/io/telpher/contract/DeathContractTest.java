package io.telpher.contract;

import org.junit.jupiter.api.Nested;

/// The contract of peers that die or turn into another program. [ContractTest] says where each
/// topic runs.
class DeathContractTest {
    @Nested
    class Death extends DeathContract {}

    @Nested
    class DeathForms extends DeathFormsContract {}

    @Nested
    class Exec extends ExecContract {}
}
