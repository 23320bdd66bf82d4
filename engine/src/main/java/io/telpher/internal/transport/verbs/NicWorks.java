package io.telpher.internal.transport.verbs;

import org.jspecify.annotations.Nullable;

/// Work in order, linked through [NicWork#next], so that nothing is allocated; work is in one such
/// list at most. Guarded by the queue that has it.
final class NicWorks {
    private @Nullable NicWork first;
    private @Nullable NicWork last;

    void add(NicWork work) {
        NicWork before = last;
        if (before == null) {
            first = work;
        } else {
            before.next = work;
        }
        last = work;
    }

    /// @return the first, which stays, or null when there is none
    @Nullable NicWork first() {
        return first;
    }

    /// @return the first, which is in the list no more, or null when there is none
    @Nullable NicWork poll() {
        NicWork work = first;
        if (work != null) {
            remove(work);
        }
        return work;
    }

    /// Takes work out that is in the list, wherever.
    void remove(NicWork work) {
        NicWork before = null;
        NicWork at = first;
        while (at != null && at != work) {
            before = at;
            at = at.next;
        }
        if (before == null) {
            first = work.next;
        } else {
            before.next = work.next;
        }
        if (last == work) {
            last = before;
        }
        work.next = null;
    }

    /// @return the first of all, linked through [NicWork#next]; the list is empty then
    @Nullable NicWork takeAll() {
        NicWork all = first;
        first = null;
        last = null;
        return all;
    }
}
