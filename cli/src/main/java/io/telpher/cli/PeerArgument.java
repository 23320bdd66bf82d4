package io.telpher.cli;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.EndpointAddress;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// How commands are told of a peer: `@FILE` or `HOST:PORT`. A secret never stands on a command
/// line, where every user of the machine can read it.
public final class PeerArgument {
    /// The forms, for usage texts.
    public static final String LABEL = "@FILE|HOST:PORT";

    private static final Pattern HOST_AND_PORT =
            Pattern.compile("([^:\\s]+|\\[[^]\\s]+]):(\\d{1,5})");

    private PeerArgument() {}

    /// @throws IllegalArgumentException when it is neither form, the file holds no address, or the
    ///     secret is missing
    public static EndpointAddress parse(String where) {
        if (where.startsWith("@")) {
            return read(Path.of(where.substring(1)));
        }
        if (where.startsWith("telpher1:")) {
            throw new IllegalArgumentException(
                    "an address holds a secret, which does not belong on a command line: put it"
                            + " into a file and use @FILE");
        }
        Matcher parts = HOST_AND_PORT.matcher(where);
        if (!parts.matches()) {
            throw new IllegalArgumentException(
                    "'"
                            + where
                            + "' is neither @FILE nor HOST:PORT; an IPv6 address stands in"
                            + " brackets, as in [fd00::1]:7070");
        }
        String secret = System.getenv("TELPHER_SECRET");
        if (secret == null) {
            throw new IllegalArgumentException(
                    "HOST:PORT needs the listener's TELPHER_SECRET in the environment");
        }
        String host = parts.group(1).replaceFirst("^\\[(.*)]$", "$1");
        return EndpointAddress.of(host, Integer.parseInt(parts.group(2)), secret.getBytes(UTF_8));
    }

    private static EndpointAddress read(Path file) {
        String text;
        try {
            text = Files.readString(file);
        } catch (NoSuchFileException e) {
            throw new IllegalArgumentException("there is no file " + file, e);
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException(file + " holds no endpoint address", e);
        } catch (IOException e) {
            throw new IllegalArgumentException("cannot read " + file + ": " + e.getMessage(), e);
        }
        try {
            return EndpointAddress.parse(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    file + " holds no endpoint address: " + e.getMessage(), e);
        }
    }
}
