package io.telpher.cli.doctor;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/// What a check found.
///
/// @param severity how much it matters
/// @param check the check's name
/// @param summary one sentence
/// @param evidence where it was seen, and what: `file = value`, `call: error`
/// @param remedy what to do, at an info what can be done; empty where there is nothing
/// @param verify how to see that the remedy worked; empty where there is none
record Finding(
        Severity severity,
        String check,
        String summary,
        String evidence,
        String remedy,
        String verify) {
    /// How much a finding matters.
    enum Severity {
        /// Worth knowing; an optional part that is missing.
        INFO,
        /// Works, but slower or with less than this machine could do.
        WARNING,
        /// Does not work.
        ERROR;

        /// @return the word in tables and in JSON
        String word() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    static Finding info(String check, String summary, String evidence) {
        return new Finding(Severity.INFO, check, summary, evidence, "", "");
    }

    /// What is no fault, and can be changed all the same.
    static Finding advice(
            String check, String summary, String evidence, String remedy, String verify) {
        return new Finding(Severity.INFO, check, summary, evidence, remedy, verify);
    }

    static Finding warning(
            String check, String summary, String evidence, String remedy, String verify) {
        return new Finding(Severity.WARNING, check, summary, evidence, remedy, verify);
    }

    static Finding error(
            String check, String summary, String evidence, String remedy, String verify) {
        return new Finding(Severity.ERROR, check, summary, evidence, remedy, verify);
    }

    /// @return the fields of its JSON object, in order
    Map<String, Object> fields() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("severity", severity.word());
        fields.put("check", check);
        fields.put("summary", summary);
        fields.put("evidence", evidence);
        fields.put("remedy", remedy);
        fields.put("verify", verify);
        return fields;
    }
}
