import org.jspecify.annotations.NullMarked;

/// The Java side of the Python package. Nothing is exported: Python asks for the table of
/// functions by JNI, once.
@NullMarked
module io.telpher.python {
    requires io.telpher.bootstrap;
    requires io.telpher.engine;
    requires static org.jspecify;
}
