package filter

import (
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/metrics"
)

// requestLogs are for a connection manager.
func (c Context) requestLogs() []*accesslogv3.AccessLog {
	return slices.Concat(c.logs, c.counts.Requests(c.service))
}

// logConnections has a TCP proxy log and count its connections. Counting needs logs at their
// beginning, too, from which those that people read are kept.
func (c Context) logConnections(proxy *tcpproxyv3.TcpProxy) {
	proxy.AccessLog = c.logs
	counting := c.counts.Connections(c.service)
	if len(counting) == 0 {
		return
	}
	logs := make([]*accesslogv3.AccessLog, len(c.logs))
	for i, l := range c.logs {
		logs[i] = message.Copied(l)
		logs[i].Filter = metrics.AtEnd(l.GetFilter())
	}
	proxy.AccessLog = slices.Concat(logs, counting)
	proxy.AccessLogOptions = &tcpproxyv3.TcpProxy_TcpAccessLogOptions{FlushAccessLogOnConnected: true}
	if c.Certified {
		// Otherwise the application may be connected, and the connection counted, before the client
		// has shown who it is.
		proxy.UpstreamConnectMode = tcpproxyv3.UpstreamConnectMode_ON_DOWNSTREAM_TLS_HANDSHAKE
		proxy.MaxEarlyDataBytes = wrapperspb.UInt32(0)
	}
}
