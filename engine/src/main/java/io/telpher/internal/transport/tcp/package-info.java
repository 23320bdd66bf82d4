/// The transport `tcp`: frames over TCP streams, one route for each pair of network interfaces that
/// share a subnet.
///
/// Start reading at [io.telpher.internal.transport.tcp.TcpEndpoint]. Which routes there are is
/// decided by a pure function, [io.telpher.internal.transport.tcp.TcpRoutes]; bytes are moved by
/// [io.telpher.internal.transport.tcp.TcpLane], whose halves
/// [io.telpher.internal.transport.tcp.TcpOutput] and [io.telpher.internal.transport.tcp.TcpInput]
/// share nothing but the socket.
@NullMarked
package io.telpher.internal.transport.tcp;

import org.jspecify.annotations.NullMarked;
