package io.telpher.internal.transport.verbs;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;

/// Makes providers one of whose calls does something else.
final class Altered {
    private Altered() {}

    /// What a call does.
    interface Call {
        /// @param usual what it would do
        /// @param arguments those of the call; the usual one takes them as they are then
        Object answer(Usual usual, Object[] arguments) throws Throwable;
    }

    /// The call as it is.
    interface Usual {
        Object answer() throws Throwable;
    }

    static Provider provider(Provider from, String method, Call call) {
        return (Provider)
                Proxy.newProxyInstance(
                        Altered.class.getClassLoader(),
                        new Class<?>[] {Provider.class},
                        (proxy, called, arguments) -> {
                            Usual usual =
                                    () -> {
                                        try {
                                            return called.invoke(from, arguments);
                                        } catch (InvocationTargetException e) {
                                            throw e.getCause();
                                        }
                                    };
                            return called.getName().equals(method)
                                    ? call.answer(usual, arguments)
                                    : usual.answer();
                        });
    }
}
