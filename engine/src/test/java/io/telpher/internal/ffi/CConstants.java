package io.telpher.internal.ffi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// Asks the C compiler for the numbers that bindings hold. The C programs are made from the Java
/// constants, so that none can be forgotten.
public final class CConstants {
    private CConstants() {}

    /// Skips where there is no C compiler.
    public static void assumeCompiler() {
        boolean found;
        try {
            found =
                    new ProcessBuilder("gcc", "--version")
                                    .redirectErrorStream(true)
                                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                                    .start()
                                    .waitFor()
                            == 0;
        } catch (IOException e) {
            found = false;
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        assumeThat(found).as("no C compiler: install the packages gcc and libc6-dev").isTrue();
    }

    /// Takes a class's constants, named `Class.CONSTANT`.
    ///
    /// @param notInC those to leave out
    /// @param expressions what is C for a constant that has another name there, or none
    /// @param uncast those whose C expression is taken as it is, though they are ints
    /// @param java gets their values
    /// @param c gets their C expressions
    public static void collect(
            Class<?> owner,
            Set<String> notInC,
            Map<String, String> expressions,
            Predicate<String> uncast,
            Map<String, Long> java,
            Map<String, String> c) {
        for (Field field : owner.getDeclaredFields()) {
            boolean isInt = field.getType() == int.class;
            if (!Modifier.isStatic(field.getModifiers())
                    || !(isInt || field.getType() == long.class)) {
                continue;
            }
            String name = owner.getSimpleName() + "." + field.getName();
            if (notInC.contains(name)) {
                continue;
            }
            try {
                field.setAccessible(true);
                java.put(name, ((Number) field.get(null)).longValue());
            } catch (IllegalAccessException e) {
                throw new AssertionError(e);
            }
            String expression = expressions.getOrDefault(name, field.getName());
            c.put(name, isInt && !uncast.test(name) ? "(int) (" + expression + ")" : expression);
        }
    }

    /// A program that prints each name with the value of its expression.
    ///
    /// @param maybeMissing macros that older headers lack
    public static String program(
            String headers, Map<String, String> expressions, Set<String> maybeMissing) {
        StringBuilder text = new StringBuilder(headers).append("int main(void) {\n");
        expressions.forEach(
                (name, expression) -> {
                    boolean guarded = maybeMissing.contains(name);
                    if (guarded) {
                        text.append("#ifdef ")
                                .append(name.substring(name.indexOf('.') + 1))
                                .append('\n');
                    }
                    text.append("    printf(\"%s %lld\\n\", \"")
                            .append(name)
                            .append("\", (long long) (")
                            .append(expression)
                            .append("));\n");
                    if (guarded) {
                        text.append("#endif\n");
                    }
                });
        return text.append("    return 0;\n}\n").toString();
    }

    /// Compiles and runs such a program, and returns what it printed.
    public static Map<String, Long> run(
            Path folder, String name, String program, List<String> options) throws Exception {
        Path source = Files.writeString(folder.resolve(name + ".c"), program);
        Path binary = folder.resolve(name);
        List<String> command = new ArrayList<>(List.of("gcc", "-O0", "-o", binary.toString()));
        command.addAll(options);
        command.add(source.toString());
        execute(command);
        Map<String, Long> told = new TreeMap<>();
        execute(List.of(binary.toString()))
                .lines()
                .forEach(
                        line -> {
                            int space = line.lastIndexOf(' ');
                            told.put(
                                    line.substring(0, space),
                                    Long.parseLong(line.substring(space + 1)));
                        });
        return told;
    }

    /// Adds the C expressions for a structure's constants: offsets of its fields; "" is its size.
    public static void put(
            Map<String, String> expressions,
            String owner,
            String structure,
            Map<String, String> fields) {
        fields.forEach(
                (name, field) ->
                        expressions.put(
                                owner + "." + name,
                                field.isEmpty()
                                        ? "sizeof(" + structure + ")"
                                        : "offsetof(" + structure + ", " + field + ")"));
    }

    /// Compares the C prototypes in the comments of bindings with a header, which may declare a
    /// function by its name without the version.
    ///
    /// @param prefix a regular expression for how the functions' names begin
    /// @param exempt functions whose prototype need not be there
    /// @return the functions whose prototypes were found in comments
    public static List<String> comparePrototypes(
            Path bindings, Path header, String prefix, Set<String> exempt) throws IOException {
        String there = Files.readString(header).replaceAll("\\s+", "");
        Pattern prototype = Pattern.compile("`[^`(]*?\\b(" + prefix + "\\w+)(\\([^`]*\\))`");
        List<String> checked = new ArrayList<>();
        try (DirectoryStream<Path> sources = Files.newDirectoryStream(bindings)) {
            for (Path source : sources) {
                Matcher matcher =
                        prototype.matcher(Files.readString(source).replaceAll("\\n\\s*/// ?", " "));
                while (matcher.find()) {
                    String name = matcher.group(1);
                    String parameters = matcher.group(2).replaceAll("\\s+", "");
                    String plain = name.replaceFirst("_v\\d$", "");
                    boolean declared =
                            there.contains(name + parameters) || there.contains(plain + parameters);
                    assertThat(declared || exempt.contains(name))
                            .as("%s declares %s%s", header, name, matcher.group(2))
                            .isTrue();
                    checked.add(name);
                }
            }
        }
        return checked;
    }

    private static String execute(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output;
        try (var reader = process.inputReader()) {
            output = reader.readAllAsString();
        }
        assertThat(process.waitFor()).as(output).isZero();
        return output;
    }
}
