package cluster

import (
	"cmp"
	"math"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// applyPool sets timeouts and limits of connections. What no rule limits is unlimited: by Envoy's
// own defaults it would drop requests above 1,024 at once.
func (d *draft) applyPool(v view.View, pool *networking.ConnectionPoolSettings) {
	tcp, http := pool.GetTcp(), pool.GetHttp()
	d.ConnectTimeout = cmp.Or(tcp.GetConnectTimeout(), v.Config.GetConnectTimeout())
	d.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections:     limit(tcp.GetMaxConnections()),
		MaxPendingRequests: limit(http.GetHttp1MaxPendingRequests()),
		MaxRequests:        limit(http.GetHttp2MaxRequests()),
		MaxRetries:         limit(http.GetMaxRetries()),
	}}}
	d.applyKeepalive(v.Config.GetTcpKeepalive())
	d.applyKeepalive(tcp.GetTcpKeepalive())
	d.applyLifetimes(pool)
	d.applyHTTP2Limits(http)
	if http.GetUseClientProtocol() {
		d.useClientProtocol()
	}
}

// mostSessions is how many sessions of UDP a gateway has with a service at once, unless a rule says
// otherwise. Each holds a socket, and everybody who can send datagrams can have sessions begin.
const mostSessions = 16384

// boundSessions sets how many sessions of UDP there may be. Datagrams that would begin more are lost.
func (d *draft) boundSessions(pool *networking.ConnectionPoolSettings) {
	most := limit(cmp.Or(pool.GetTcp().GetMaxConnections(), mostSessions))
	d.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{MaxConnections: most}}}
}

// limitRetries bounds retries to a share of the requests that are under way.
func (d *draft) limitRetries(budget *networking.TrafficPolicy_RetryBudget) {
	if budget == nil {
		return
	}
	d.GetCircuitBreakers().GetThresholds()[0].RetryBudget = &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
		BudgetPercent:       &typev3.Percent{Value: valueOr(budget.GetPercent(), defaultRetryPercent)},
		BudgetInterval:      budget.GetBudgetInterval(),
		MinRetryConcurrency: cmp.Or(message.Positive(budget.GetMinRetryConcurrency()), wrapperspb.UInt32(defaultRetryConcurrency)),
	}
}

// What holds if a retry budget leaves it out. The values are Istio's, and Envoy's.
const (
	defaultRetryPercent     = 20
	defaultRetryConcurrency = 3
)

func limit(n int32) *wrapperspb.UInt32Value {
	if n <= 0 {
		return wrapperspb.UInt32(math.MaxUint32)
	}
	return wrapperspb.UInt32(uint32(n))
}

// applyLifetimes limits how long a connection lives, and for how many requests.
func (d *draft) applyLifetimes(pool *networking.ConnectionPoolSettings) {
	if idle := cmp.Or(pool.GetHttp().GetIdleTimeout(), pool.GetTcp().GetIdleTimeout()); idle != nil {
		d.commonOptions().IdleTimeout = idle
	}
	if requests := message.Positive(pool.GetHttp().GetMaxRequestsPerConnection()); requests != nil {
		d.commonOptions().MaxRequestsPerConnection = requests
	}
	if age := pool.GetTcp().GetMaxConnectionDuration(); age != nil {
		d.commonOptions().MaxConnectionDuration = age
	}
}

// applyHTTP2Limits sets limits that only HTTP/2 connections have.
func (d *draft) applyHTTP2Limits(http *networking.ConnectionPoolSettings_HTTPSettings) {
	http2 := d.http.GetExplicitHttpConfig().GetHttp2ProtocolOptions()
	if http2 == nil {
		return
	}
	if streams := message.Positive(http.GetMaxConcurrentStreams()); streams != nil {
		http2.MaxConcurrentStreams = streams
	}
	if alive := http.GetHttp2KeepAlive(); alive != nil {
		http2.ConnectionKeepalive = &corev3.KeepaliveSettings{Interval: alive.GetInterval(), Timeout: alive.GetTimeout()}
	}
}

// applyKeepalive sets what the settings name and keeps the rest.
func (d *draft) applyKeepalive(settings *networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive) {
	if settings == nil {
		return
	}
	if d.GetUpstreamConnectionOptions() == nil {
		d.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{}}
	}
	alive := d.GetUpstreamConnectionOptions().GetTcpKeepalive()
	alive.KeepaliveProbes = cmp.Or(message.Positive(settings.GetProbes()), alive.GetKeepaliveProbes())
	alive.KeepaliveTime = cmp.Or(wholeSeconds(settings.GetTime()), alive.GetKeepaliveTime())
	alive.KeepaliveInterval = cmp.Or(wholeSeconds(settings.GetInterval()), alive.GetKeepaliveInterval())
}

func wholeSeconds(d *durationpb.Duration) *wrapperspb.UInt32Value {
	if d == nil {
		return nil
	}
	return wrapperspb.UInt32(uint32(d.GetSeconds()))
}
