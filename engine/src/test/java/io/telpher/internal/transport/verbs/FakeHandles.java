package io.telpher.internal.transport.verbs;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/// The objects of [FakeLibrary] by handle; what is gone leaves a null, so that nothing comes back.
/// Guarded by the [FakeLibrary], but for looking something up.
final class FakeHandles {
    private final Consumer<String> misuse;
    private volatile @Nullable Object[] objects = new Object[256];
    private int made;

    /// @param misuse told of handles that make no sense
    FakeHandles(Consumer<String> misuse) {
        this.misuse = misuse;
    }

    long add(Object object) {
        @Nullable Object[] all = objects;
        if (made == all.length) {
            all = Arrays.copyOf(all, 2 * all.length);
        }
        all[made++] = object;
        objects = all; // publishes the element
        return handle(made - 1);
    }

    private static long handle(int index) {
        return (index + 1L) << 20;
    }

    private static int index(long handle) {
        return (int) (handle >> 20) - 1;
    }

    @Nullable Object find(long handle) {
        int index = index(handle);
        @Nullable Object[] all = objects;
        return index < 0 || index >= all.length ? null : all[index];
    }

    <T> T get(long handle, Class<T> type) {
        Object object = find(handle);
        if (!type.isInstance(object)) {
            misuse.accept("no " + type.getSimpleName() + " " + handle);
            throw new IllegalStateException("no " + type.getSimpleName() + " " + handle);
        }
        return type.cast(object);
    }

    /// @param used whether something else still needs it
    /// @param gone whether it goes, or stays there as it was
    /// @return false when it is in use
    boolean destroy(String verb, long handle, boolean used, boolean gone) {
        if (used) {
            misuse.accept(verb + " of what is in use");
            return false;
        }
        if (find(handle) == null) {
            misuse.accept(verb + " of what is not there");
        }
        if (gone) {
            objects[index(handle)] = null;
        }
        return true;
    }

    boolean any(Predicate<Object> which) {
        return Arrays.stream(objects).filter(Objects::nonNull).anyMatch(which);
    }

    <T> List<T> all(Class<T> type) {
        return Arrays.stream(objects).filter(type::isInstance).map(type::cast).toList();
    }

    /// Something that is done with an object.
    interface Visitor {
        void visit(long handle, Object object);
    }

    void forEach(Visitor visitor) {
        for (int i = 0; i < made; i++) {
            Object object = objects[i];
            if (object != null) {
                visitor.visit(handle(i), object);
            }
        }
    }

    void forgetAll() {
        Arrays.fill(objects, null);
    }
}
