package io.telpher.cli.doctor;

import java.util.List;

/// Looks at one thing. Stateless.
interface Check {
    /// @return short name, as findings carry it
    String name();

    /// @return at least one finding: what was looked at and is good is a finding too
    List<Finding> examine(Host host);
}
