package io.telpher.cli.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import io.telpher.cli.Json;
import io.telpher.cli.Tool;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/// A browser without a window, watched and led through its DevTools protocol: JSON over a WebSocket
/// of this host. It has one page at a time. Used by one thread.
final class Browser implements AutoCloseable {
    /// The first is a Debian package too.
    private static final List<String> PROGRAMS =
            List.of("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome");

    private static final String LISTENS = "DevTools listening on ";
    private static final int LIMIT_SECONDS = 60;
    private static final JsonFactory JSON = new JsonFactory();

    private final Process process;
    private final WebSocket socket;
    private final AtomicInteger calls = new AtomicInteger();
    private final Map<Long, CompletableFuture<Map<?, ?>>> answers = new ConcurrentHashMap<>();
    private final List<String> complaints = new CopyOnWriteArrayList<>();
    private final List<String> requests = new CopyOnWriteArrayList<>();
    private volatile CompletableFuture<Void> loaded = new CompletableFuture<>();
    private @Nullable String target;
    private @Nullable String session;

    /// @return the program, or null where none is installed
    static @Nullable String program() {
        return PROGRAMS.stream().map(Tool::find).filter(Objects::nonNull).findFirst().orElse(null);
    }

    /// @param folder for what it keeps
    Browser(String program, Path folder) throws Exception {
        // It shows pages that a test has written, in containers too, where its sandbox cannot be.
        process =
                new ProcessBuilder(
                                program,
                                "--headless",
                                "--remote-debugging-port=0",
                                "--user-data-dir=" + folder,
                                "--no-sandbox",
                                "--disable-gpu",
                                "--disable-dev-shm-usage",
                                "--disable-breakpad",
                                "--window-size=1200,1000")
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                        .start();
        BufferedReader said =
                new BufferedReader(new InputStreamReader(process.getErrorStream(), UTF_8));
        StringBuilder before = new StringBuilder();
        String line = said.readLine();
        while (line != null && !line.startsWith(LISTENS)) {
            before.append(line).append('\n');
            line = said.readLine();
        }
        if (line == null) {
            throw new IOException(program + " ended: " + before);
        }
        Thread.ofPlatform().daemon().start(() -> said.lines().forEach(more -> {}));
        socket =
                HttpClient.newHttpClient()
                        .newWebSocketBuilder()
                        .buildAsync(URI.create(line.substring(LISTENS.length())), new Reader())
                        .get(LIMIT_SECONDS, TimeUnit.SECONDS);
    }

    /// Shows a page, in place of the one before, until its scripts have run.
    void open(Path file) throws Exception {
        if (target != null) {
            call("Target.closeTarget", Map.of("targetId", target));
        }
        session = null;
        target = (String) call("Target.createTarget", Map.of("url", "about:blank")).get("targetId");
        session =
                (String)
                        call("Target.attachToTarget", Map.of("targetId", target, "flatten", true))
                                .get("sessionId");
        complaints.clear();
        requests.clear();
        for (String domain : List.of("Page", "Runtime", "Log", "Network")) {
            call(domain + ".enable", Map.of());
        }
        loaded = new CompletableFuture<>();
        call("Page.navigate", Map.of("url", file.toUri().toString()));
        loaded.get(LIMIT_SECONDS, TimeUnit.SECONDS);
        frames();
    }

    /// @return errors of scripts, and whatever else a developer's console would show
    List<String> complaints() throws Exception {
        frames();
        return complaints;
    }

    /// @return what has been asked for, the page itself first
    List<String> requests() throws Exception {
        frames();
        return requests;
    }

    /// @param expression of JavaScript; may be a promise
    /// @return its value: a text, number, truth value, list, or null
    @Nullable Object evaluate(String expression) throws Exception {
        Map<?, ?> answer =
                call(
                        "Runtime.evaluate",
                        Map.of(
                                "expression", expression,
                                "returnByValue", true,
                                "awaitPromise", true));
        if (answer.get("exceptionDetails") != null) {
            throw new IllegalArgumentException(expression + ": " + answer);
        }
        return ((Map<?, ?>) answer.get("result")).get("value");
    }

    /// @return what the expression, a list of texts, gives
    List<String> texts(String expression) throws Exception {
        return ((List<?>) Objects.requireNonNull(evaluate(expression)))
                .stream().map(String.class::cast).toList();
    }

    /// Moves the pointer there.
    void point(double x, double y) throws Exception {
        call("Input.dispatchMouseEvent", Map.of("type", "mouseMoved", "x", x, "y", y));
        frames();
    }

    /// Makes the window that wide.
    void resize(int width) throws Exception {
        call(
                "Emulation.setDeviceMetricsOverride",
                Map.of("width", width, "height", 1000, "deviceScaleFactor", 1, "mobile", false));
        frames();
    }

    /// Lets what waits for the next frame happen, and what has been reported arrive.
    private void frames() throws Exception {
        evaluate("new Promise(f => requestAnimationFrame(() => setTimeout(f, 0)))");
    }

    private Map<?, ?> call(String method, Map<String, ?> parameters) throws Exception {
        long id = calls.incrementAndGet();
        String attached = session == null ? "" : ",\"sessionId\":\"" + session + "\"";
        CompletableFuture<Map<?, ?>> answer = new CompletableFuture<>();
        answers.put(id, answer);
        socket.sendText(
                        "{\"id\":%d,\"method\":\"%s\",\"params\":%s%s}"
                                .formatted(id, method, Json.object(parameters), attached),
                        true)
                .get(LIMIT_SECONDS, TimeUnit.SECONDS);
        try {
            Map<?, ?> message = answer.get(LIMIT_SECONDS, TimeUnit.SECONDS);
            if (message.get("result") instanceof Map<?, ?> result) {
                return result;
            }
            throw new IllegalStateException(method + ": " + message);
        } catch (TimeoutException e) {
            throw new IllegalStateException(method + " got no answer; heard: " + complaints, e);
        }
    }

    private void heard(Map<?, ?> message) {
        if (message.get("id") instanceof Long id) {
            answers.remove(id).complete(message);
            return;
        }
        Object what = message.get("params");
        switch (String.valueOf(message.get("method"))) {
            case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded" ->
                    complaints.add(String.valueOf(what));
            case "Network.requestWillBeSent" ->
                    requests.add(((Map<?, ?>) ((Map<?, ?>) what).get("request")).get("url") + "");
            case "Page.loadEventFired" -> loaded.complete(null);
            default -> {} // of the browser itself
        }
    }

    @Override
    public void close() {
        socket.abort();
        Tool.end(process);
        process.onExit().join();
    }

    private static Map<?, ?> parse(String text) {
        try (JsonParser parser = JSON.createParser(text)) {
            parser.nextToken();
            return (Map<?, ?>) Objects.requireNonNull(value(parser));
        } catch (IOException e) {
            throw new UncheckedIOException(text, e);
        }
    }

    private static @Nullable Object value(JsonParser parser) throws IOException {
        switch (parser.currentToken()) {
            case START_OBJECT -> {
                Map<String, Object> fields = new LinkedHashMap<>();
                for (String name; (name = parser.nextFieldName()) != null; ) {
                    parser.nextToken();
                    fields.put(name, value(parser));
                }
                return fields;
            }
            case START_ARRAY -> {
                List<Object> values = new ArrayList<>();
                while (parser.nextToken() != JsonToken.END_ARRAY) {
                    values.add(value(parser));
                }
                return values;
            }
            case VALUE_STRING -> {
                return parser.getText();
            }
            case VALUE_NUMBER_INT -> {
                return parser.getLongValue();
            }
            case VALUE_NUMBER_FLOAT -> {
                return parser.getDoubleValue();
            }
            case VALUE_NULL -> {
                return null;
            }
            default -> {
                return parser.getBooleanValue();
            }
        }
    }

    /// Puts the parts of a message together.
    private final class Reader implements WebSocket.Listener {
        private final StringBuilder text = new StringBuilder();

        @Override
        public @Nullable CompletionStage<?> onText(
                WebSocket from, CharSequence part, boolean last) {
            text.append(part);
            if (last) {
                Map<?, ?> message = parse(text.toString());
                text.setLength(0);
                heard(message);
            }
            from.request(1);
            return null;
        }
    }
}
