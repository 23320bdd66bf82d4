package io.telpher.cli.watch;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.telpher.internal.observe.MetricsReader;
import io.telpher.internal.observe.Snapshot;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Collection;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/// Serves the counters of processes as a Prometheus page, at `/metrics`. Reads them anew for each
/// scrape.
public final class MetricsServer implements AutoCloseable {
    /// Which processes are shown, asked for at each scrape.
    public interface Processes {
        /// @throws IOException when they cannot be found
        Collection<Long> find() throws IOException;
    }

    private static final int BACKLOG = 16;

    static {
        // Whoever connects and says nothing, or takes nothing, is let go after so many seconds.
        System.setProperty("sun.net.httpserver.maxReqTime", "10");
        System.setProperty("sun.net.httpserver.maxRspTime", "30");
    }

    private final Processes processes;
    private final HttpServer server;
    private final ExecutorService executor = Executors.newVirtualThreadPerTaskExecutor();

    private MetricsServer(Processes processes, HttpServer server) {
        this.processes = processes;
        this.server = server;
    }

    /// Starts a server.
    ///
    /// @param listen where
    /// @throws IOException when it cannot listen there
    public static MetricsServer start(InetSocketAddress listen, Processes processes)
            throws IOException {
        HttpServer http = HttpServer.create(listen, BACKLOG);
        MetricsServer server = new MetricsServer(processes, http);
        http.createContext("/", server::answer);
        http.setExecutor(server.executor);
        http.start();
        return server;
    }

    /// Reads `HOST:PORT`; port 0 lets the system choose.
    ///
    /// @throws IllegalArgumentException when it is not of that form, or the host is not known
    public static InetSocketAddress parse(String text) {
        int colon = text.lastIndexOf(':');
        String port = text.substring(colon + 1);
        if (colon <= 0 || !port.matches("\\d{1,5}") || Integer.parseInt(port) > 65_535) {
            throw new IllegalArgumentException(
                    "'%s' is not HOST:PORT, such as 127.0.0.1:9464 or [::]:9464".formatted(text));
        }
        String host = text.substring(0, colon).replaceFirst("^\\[(.*)]$", "$1");
        try {
            return new InetSocketAddress(InetAddress.getByName(host), Integer.parseInt(port));
        } catch (java.net.UnknownHostException e) {
            throw new IllegalArgumentException("there is no host '%s'".formatted(host), e);
        }
    }

    /// @return the page's address
    public String url() {
        InetSocketAddress at = server.getAddress();
        String host = at.getAddress().getHostAddress();
        return "http://%s:%d/metrics"
                .formatted(host.contains(":") ? "[" + host + "]" : host, at.getPort());
    }

    private void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            String method = exchange.getRequestMethod();
            if (!exchange.getRequestURI().getPath().equals("/metrics")) {
                send(exchange, 404, "text/plain; charset=utf-8", "the page is at /metrics\n");
            } else if (!method.equals("GET") && !method.equals("HEAD")) {
                exchange.getResponseHeaders().set("Allow", "GET, HEAD");
                send(exchange, 405, "text/plain; charset=utf-8", "GET it\n");
            } else {
                send(exchange, 200, PrometheusText.CONTENT_TYPE, page());
            }
        }
    }

    private static void send(HttpExchange exchange, int status, String type, String text)
            throws IOException {
        byte[] body = text.getBytes(UTF_8);
        exchange.getResponseHeaders().set("Content-Type", type);
        if (exchange.getRequestMethod().equals("HEAD")) {
            exchange.sendResponseHeaders(status, -1);
            return;
        }
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
    }

    private String page() throws IOException {
        PrometheusText text = new PrometheusText();
        Collection<Long> pids = processes.find();
        MetricsReader.ask(pids);
        for (long pid : pids) {
            try {
                for (Snapshot snapshot : MetricsReader.read(pid)) {
                    text.add(pid, snapshot, System.currentTimeMillis());
                }
                text.readable(pid, true);
            } catch (MetricsReader.Gone | MetricsReader.Unreadable e) {
                text.readable(pid, false);
            }
        }
        return text.toString();
    }

    @Override
    public void close() {
        server.stop(0);
        executor.shutdownNow();
    }
}
