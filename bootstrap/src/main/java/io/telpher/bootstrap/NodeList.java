package io.telpher.bootstrap;

/// Slurm's short form of many host names, such as `gpu[03-05,9],login1` or `rack[1-2]n[01-16]`.
final class NodeList {
    private NodeList() {}

    /// @return the first host that the list stands for
    /// @throws IllegalArgumentException when it is no such list
    static String first(String list) {
        StringBuilder host = new StringBuilder();
        int at = 0;
        while (at < list.length() && list.charAt(at) != ',') {
            char c = list.charAt(at);
            if (c == '[') {
                int end = list.indexOf(']', at);
                if (end < 0) {
                    throw new IllegalArgumentException("'[' at " + at + " has no ']'");
                }
                String range = list.substring(at + 1, end);
                if (!range.matches("\\d+(-\\d+)?(,\\d+(-\\d+)?)*")) {
                    throw new IllegalArgumentException("'[" + range + "]' holds no numbers");
                }
                host.append(range.split("[-,]", 2)[0]); // with its leading zeros
                at = end + 1;
            } else if (Character.isLetterOrDigit(c) || c == '-' || c == '.' || c == '_') {
                host.append(c);
                at++;
            } else {
                throw new IllegalArgumentException("'" + c + "' at " + at);
            }
        }
        if (host.isEmpty()) {
            throw new IllegalArgumentException("it is empty");
        }
        return host.toString();
    }
}
