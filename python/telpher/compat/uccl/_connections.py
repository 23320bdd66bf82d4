"""UCCL's connections, which have a direction each, over those of the engine, of which two endpoints that connect to each other at once get one."""

from __future__ import annotations

import collections
import itertools
import json
import os
import threading
import time
from typing import Any, Deque, Dict, List, Optional

from ... import Connection, Endpoint, EndpointAddress, Error, TimedOut
from ._addresses import Refused, log

NET, LOCAL = "net", "local"
_GREETING = b"uccl.p2p/1 "
_GREETING_LIMIT = 10.0
_SLICE = 0.05


class Link:
    """A connection of the engine. ``channels``: how many of ours use it."""

    def __init__(self, connection: Connection, connected: bool):
        self.connection = connection
        self.channels = 0
        # One that we made may bring a greeting whenever the peer connects at the same time; one that the peer made brings one at once.
        self.limit = None if connected else time.monotonic() + _GREETING_LIMIT


class Channel:
    """One connection as UCCL counts them. Messages of a channel have a tag of their own."""

    def __init__(self, number: int, link: Link, tag: int, peer: Dict[str, Any]):
        self.number = number
        self.link = link
        self.connection = link.connection
        self.tag = tag
        self.peer = peer
        self.sending = threading.Lock()
        self.receiving = threading.Lock()


class Connections:
    """The connection ids of an endpoint. Thread-safe.

    Whoever connects sends a greeting: kind, tag, who it is. Whoever accepts looks for greetings, on connections that the engine accepts and on those
    that it made itself.
    """

    def __init__(self, endpoint: Endpoint, identity: Dict[str, Any]):
        self._endpoint = endpoint
        self._identity = identity
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._looking = False
        self._channels: Dict[int, Channel] = {}
        self._silent: List[Link] = []
        self._arrived: Dict[str, Deque[Channel]] = {NET: collections.deque(), LOCAL: collections.deque()}

    def identify(self, identity: Dict[str, Any]) -> None:
        """What greetings say from now on."""
        self._identity = identity

    def connect(self, address: EndpointAddress, kind: str, peer: Dict[str, Any], timeout: float) -> int:
        """Connects and greets; returns the id."""
        connection = self._endpoint.connect(address, timeout)
        tag = int.from_bytes(os.urandom(8), "little", signed=True)
        try:
            connection.notify(_GREETING + json.dumps({**self._identity, "kind": kind, "tag": tag}).encode()).wait()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            link = Link(connection, True)
            self._silent.append(link)
            link.channels += 1
            return self._add(Channel(next(self._numbers), link, tag, peer)).number

    def accept(self, kind: str) -> Channel:
        """Waits for a peer that connects in this way. Raises Closed with the endpoint."""
        while True:
            with self._changed:
                if self._arrived[kind]:
                    return self._add(self._arrived[kind].popleft())
                if self._looking:
                    self._changed.wait(_SLICE)
                    continue
                self._looking = True
            try:
                self._look()
            finally:
                with self._changed:
                    self._looking = False
                    self._changed.notify_all()

    def accept_all(self) -> None:
        """Takes in whoever connects; returns after a moment."""
        self._look()
        with self._lock:
            for queue in self._arrived.values():
                while queue:
                    self._add(queue.popleft())

    def get(self, number: int) -> Channel:
        """Raises Refused."""
        found = self._channels.get(number)
        if found is None:
            raise Refused("no connection has the id %s" % number)
        return found

    def has(self, number: int) -> bool:
        """Whether there is a connection of this id, alive or not."""
        return number in self._channels

    def remove(self, number: int) -> None:
        """Forgets a connection. What is under way on it fails, unless the peer uses the same one for a connection of its own."""
        channel = self.get(number)
        with self._lock:
            if self._channels.pop(number, None) is None:
                raise Refused("no connection has the id %s" % number)
            link = channel.link
            if link in self._silent:
                self._listen(link)
            link.channels -= 1
            if link.channels:
                return
            if link in self._silent:
                self._silent.remove(link)
        link.connection.close()

    def _add(self, channel: Channel) -> Channel:
        self._channels[channel.number] = channel
        return channel

    def _look(self) -> None:
        """Takes in one connection of the engine, or waits a moment for one; then listens to all that have not greeted."""
        with self._lock:
            hurry = any(link.limit is not None for link in self._silent)
        try:
            accepted: Optional[Connection] = self._endpoint.accept(_SLICE / 50 if hurry else _SLICE)
        except TimedOut:
            accepted = None
        with self._lock:
            if accepted is not None:
                self._silent.append(Link(accepted, False))
            for link in list(self._silent):
                self._listen(link)

    def _listen(self, link: Link) -> None:
        """Looks for a greeting. Called with the lock."""
        try:
            payload = link.connection.poll_notification()
        except Error as e:
            self._silent.remove(link)
            log.debug("a connection ended before its peer said who it is: %s", e)
            return
        if payload is not None:
            self._silent.remove(link)
            self._greeted(link, payload)
        elif link.limit is not None and time.monotonic() > link.limit:
            self._silent.remove(link)
            log.warning("a peer connected and did not say within %g s that it speaks uccl.p2p: closed", _GREETING_LIMIT)
            link.connection.close()

    def _greeted(self, link: Link, payload: bytes) -> None:
        try:
            if not payload.startswith(_GREETING):
                raise ValueError("it starts with %r" % payload[: len(_GREETING)])
            peer = json.loads(payload[len(_GREETING) :])
            queue, tag = self._arrived[peer["kind"]], int(peer["tag"])
            peer = {"ip": str(peer["ip"]), "gpu": int(peer["gpu"]), "bdf": str(peer["bdf"])}
        except (ValueError, KeyError, TypeError) as e:
            log.warning("a peer connected that does not speak uccl.p2p, closed: %s", e)
            if not link.channels:
                link.connection.close()
            return
        link.channels += 1
        queue.append(Channel(next(self._numbers), link, tag, peer))
        self._changed.notify_all()
