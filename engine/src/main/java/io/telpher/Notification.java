package io.telpher;

/// A message that a peer attached to a write, or sent by itself: it arrives once, after every byte
/// of its write is in this endpoint's memory.
///
/// @param payload the peer's bytes; a copy that belongs to the receiver
public record Notification(byte[] payload) {}
