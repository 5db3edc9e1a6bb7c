package kuma

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// rules are what policies say of how a service is asked.
type rules struct {
	policy  *networking.TrafficPolicy
	timeout *durationpb.Duration
	retries *networking.HTTPRetry
	fault   *networking.HTTPFaultInjection
	routes  []route
	tcp     []*networking.RouteDestination
	subsets map[string]map[string]string
}

func (s *service) said() *rules {
	if s.rules == nil {
		s.rules = &rules{subsets: map[string]map[string]string{}}
	}
	return s.rules
}

func (s *service) policy() *networking.TrafficPolicy {
	if s.said().policy == nil {
		s.rules.policy = &networking.TrafficPolicy{}
	}
	return s.rules.policy
}

func (s *service) pool() *networking.ConnectionPoolSettings {
	p := s.policy()
	if p.ConnectionPool == nil {
		p.ConnectionPool = &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{}, Http: &networking.ConnectionPoolSettings_HTTPSettings{}}
	}
	return p.GetConnectionPool()
}

// policies reads those that are about how services are asked. What is said of one service counts before what is
// said of all.
func (c *Conversion) policies() {
	c.routes()
	c.each("MeshTimeout", c.timeout)
	c.each("MeshRetry", c.retry)
	c.each("MeshCircuitBreaker", c.circuitBreaker)
	c.each("MeshLoadBalancingStrategy", c.balance)
	c.each("MeshFaultInjection", c.fault)
	for _, kind := range []string{"MeshTimeout", "MeshCircuitBreaker"} {
		for _, r := range c.of(kind) {
			for _, list := range []string{"from", "rules"} {
				for _, o := range r.spec.Objects(list) {
					c.Lose(o.At, "it is about what comes in, and here whoever asks has such limits", "say it in `to`")
					skipAll(o)
				}
			}
		}
	}
	c.faults()
}

// skipAll has nothing of an object be told again.
func skipAll(o *fields.Object) { o.Skip("targetRef", "default", "matches") }

// each calls a function with each service that an entry of the policies of a kind is about, and what it says.
func (c *Conversion) each(kind string, do func(*service, *fields.Object)) {
	for _, whole := range []bool{true, false} {
		for _, r := range c.of(kind) {
			top := refOf(r.spec.Object("targetRef"))
			for _, o := range r.spec.Objects("to") {
				to := refOf(o.Object("targetRef"))
				switch {
				case !top.all():
					c.Lose(o.At, "it is about some proxies alone: it is left out", "write it for all, or a DestinationRule with workloadSelector or a VirtualService with sourceLabels by hand")
					skipAll(o)
				case whole == to.all():
					c.meant(to, o, do)
				}
			}
		}
	}
}

func (c *Conversion) meant(to ref, o *fields.Object, do func(*service, *fields.Object)) {
	if to.all() {
		for _, name := range slices.Sorted(maps.Keys(c.services)) {
			do(c.services[name], o.Object("default"))
		}
		return
	}
	s := c.services[to.name]
	if s == nil || to.odd || len(to.tags) > 0 || !strings.HasPrefix(to.kind, "Mesh") || to.kind == "MeshHTTPRoute" {
		c.Lose(o.At, "it is about what is no service that is known: "+cmp.Or(to.name, to.kind), "convert the Dataplanes or the MeshService with it; a part of a service has no policy of its own")
		skipAll(o)
		return
	}
	do(s, o.Object("default"))
}

func (c *Conversion) timeout(s *service, o *fields.Object) {
	h := o.Object("http")
	if d, there := o.Duration("connectionTimeout"); there && d > 0 {
		s.pool().Tcp.ConnectTimeout = durationpb.New(d)
	}
	if d, there := o.Duration("idleTimeout"); there && d > 0 {
		if s.http() {
			s.pool().Http.IdleTimeout = durationpb.New(d)
		} else {
			s.pool().Tcp.IdleTimeout = durationpb.New(d)
		}
	}
	if d, there := h.Duration("requestTimeout"); there && s.http() {
		s.said().timeout = durationpb.New(d)
	}
	if d, there := h.Duration("maxConnectionDuration"); there && d > 0 {
		s.pool().Tcp.MaxConnectionDuration = durationpb.New(d)
	}
}

// onRetry are the words of Kuma for when a request is sent again.
var onRetry = map[string]string{
	"5xx": "5xx", "GatewayError": "gateway-error", "Reset": "reset", "Retriable4xx": "retriable-4xx", "ConnectFailure": "connect-failure",
	"EnvoyRatelimited": "envoy-ratelimited", "RefusedStream": "refused-stream", "Http3PostConnectFailure": "http3-post-connect-failure",
	"Canceled": "cancelled", "DeadlineExceeded": "deadline-exceeded", "Internal": "internal", "ResourceExhausted": "resource-exhausted", "Unavailable": "unavailable",
}

// otherwiseRetried is on what Kuma sends a request again if nothing is said.
const otherwiseRetried = "gateway-error,connect-failure,refused-stream"

func (c *Conversion) retry(s *service, o *fields.Object) {
	of := o.Object("http")
	if s.entry.GetPorts()[0].GetProtocol() == "GRPC" && o.Has("grpc") {
		of = o.Object("grpc")
		o.Skip("http")
	} else {
		o.Skip("grpc")
	}
	count, there := of.Whole("numRetries")
	if of == nil || !s.http() {
		return
	}
	out := &networking.HTTPRetry{Attempts: int32(min(count, 1000))}
	if !there {
		out.Attempts = 1
	}
	var on []string
	for _, word := range of.Texts("retryOn") {
		if known := cmp.Or(onRetry[word], status(word)); known != "" {
			on = append(on, known)
		} else {
			c.Lose(of.At.In("retryOn"), "requests are not sent again by their method: "+word+" is left out", "")
		}
	}
	if out.GetAttempts() > 0 {
		out.RetryOn = cmp.Or(strings.Join(on, ","), otherwiseRetried)
	}
	if d, there := of.Duration("perTryTimeout"); there && d > 0 {
		out.PerTryTimeout = durationpb.New(d)
	}
	if d, there := of.Object("backOff").Duration("baseInterval"); there && d > 0 {
		out.Backoff = durationpb.New(d)
	}
	s.said().retries = out
}

// status is a status of HTTP as it is written, or nothing.
func status(word string) string {
	if len(word) == 3 && strings.Trim(word, "0123456789") == "" {
		return word
	}
	return ""
}

func yes(is bool) *wrapperspb.BoolValue {
	if is {
		return wrapperspb.Bool(true)
	}
	return nil
}

func (c *Conversion) circuitBreaker(s *service, o *fields.Object) {
	limits := o.Object("connectionLimits")
	for name, into := range map[string]func(int32){
		"maxConnections":     func(n int32) { s.pool().Tcp.MaxConnections = n },
		"maxPendingRequests": func(n int32) { s.pool().Http.Http1MaxPendingRequests = n },
		"maxRequests":        func(n int32) { s.pool().Http.Http2MaxRequests = n },
		"maxRetries":         func(n int32) { s.pool().Http.MaxRetries = n },
	} {
		if n, there := limits.Whole(name); there {
			into(int32(min(n, 1<<31-1)))
		}
	}
	od := o.Object("outlierDetection")
	if od == nil {
		return
	}
	if disabled := od.Yes("disabled"); disabled {
		s.policy().OutlierDetection = nil
		return
	}
	out := &networking.OutlierDetection{SplitExternalLocalOriginErrors: od.Yes("splitExternalAndLocalErrors")}
	if d, there := od.Duration("interval"); there && d > 0 {
		out.Interval = durationpb.New(d)
	}
	if d, there := od.Duration("baseEjectionTime"); there && d > 0 {
		out.BaseEjectionTime = durationpb.New(d)
	}
	if n, there := od.Whole("maxEjectionPercent"); there {
		out.MaxEjectionPercent = int32(min(n, 100))
	}
	if n, there := od.Whole("healthyPanicThreshold"); there {
		out.MinHealthPercent = int32(min(n, 100))
	}
	detectors := od.Object("detectors")
	for name, into := range map[string]**wrapperspb.UInt32Value{
		"totalFailures": &out.Consecutive_5XxErrors, "gatewayFailures": &out.ConsecutiveGatewayErrors, "localOriginFailures": &out.ConsecutiveLocalOriginFailures,
	} {
		if n, there := detectors.Object(name).Whole("consecutive"); there {
			*into = wrapperspb.UInt32(n)
		}
	}
	s.policy().OutlierDetection = out
}

// simple are the balances that need no more than their name.
var simple = map[string]networking.LoadBalancerSettings_SimpleLB{
	"RoundRobin": networking.LoadBalancerSettings_ROUND_ROBIN, "LeastRequest": networking.LoadBalancerSettings_LEAST_REQUEST, "Random": networking.LoadBalancerSettings_RANDOM,
}

func (c *Conversion) balance(s *service, o *fields.Object) {
	if locality := o.Object("localityAwareness"); locality.Yes("disabled") {
		s.balancer().LocalityLbSetting = &networking.LocalityLoadBalancerSetting{Enabled: wrapperspb.Bool(false)}
	}
	lb := o.Object("loadBalancer")
	kind := lb.Text("type")
	if word, is := simple[kind]; is {
		s.balancer().LbPolicy = &networking.LoadBalancerSettings_Simple{Simple: word}
		return
	}
	if kind != "RingHash" && kind != "Maglev" {
		return
	}
	of := lb.Object("ringHash")
	if kind == "Maglev" {
		of = lb.Object("maglev")
	}
	policies := append(o.Objects("hashPolicies"), of.Objects("hashPolicies")...)
	if len(policies) == 0 {
		c.Lose(lb.At, "nothing says by what requests are hashed: any instance is asked", "write a DestinationRule with consistentHash")
		return
	}
	hash := hashOf(policies[0])
	if hash.GetHashKey() == nil {
		return
	}
	if len(policies) > 1 {
		c.Lose(policies[1].At, "requests are hashed by one thing: by the first", "")
	}
	if size, there := of.Whole("minRingSize"); there && kind == "RingHash" {
		hash.HashAlgorithm = &networking.LoadBalancerSettings_ConsistentHashLB_RingHash_{RingHash: &networking.LoadBalancerSettings_ConsistentHashLB_RingHash{MinimumRingSize: uint64(size)}}
	}
	if size, there := of.Whole("tableSize"); there || kind == "Maglev" {
		hash.HashAlgorithm = &networking.LoadBalancerSettings_ConsistentHashLB_Maglev{Maglev: &networking.LoadBalancerSettings_ConsistentHashLB_MagLev{TableSize: uint64(size)}}
	}
	s.balancer().LbPolicy = &networking.LoadBalancerSettings_ConsistentHash{ConsistentHash: hash}
}

func (s *service) balancer() *networking.LoadBalancerSettings {
	p := s.policy()
	if p.LoadBalancer == nil {
		p.LoadBalancer = &networking.LoadBalancerSettings{}
	}
	return p.GetLoadBalancer()
}

func hashOf(o *fields.Object) *networking.LoadBalancerSettings_ConsistentHashLB {
	hash := &networking.LoadBalancerSettings_ConsistentHashLB{}
	o.Skip("terminal")
	switch o.Text("type") {
	case "Header":
		hash.HashKey = &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: o.Object("header").Text("name")}
	case "QueryParameter":
		hash.HashKey = &networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName{HttpQueryParameterName: o.Object("queryParameter").Text("name")}
	case "SourceIP", "Connection":
		o.Object("connection").Skip("sourceIP")
		hash.HashKey = &networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp{UseSourceIp: true}
	case "Cookie":
		cookie := o.Object("cookie")
		key := &networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie{Name: cookie.Text("name"), Path: cookie.Text("path")}
		if ttl, there := cookie.Duration("ttl"); there {
			key.Ttl = durationpb.New(ttl)
		}
		hash.HashKey = &networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie{HttpCookie: key}
	}
	return hash
}

// faults reads faults that a service meets whoever asks: whoever asks has them here.
func (c *Conversion) faults() {
	for _, r := range c.of("MeshFaultInjection") {
		top := refOf(r.spec.Object("targetRef"))
		for _, list := range []string{"from", "rules"} {
			for _, o := range r.spec.Objects(list) {
				if !refOf(o.Object("targetRef")).all() || o.Has("matches") {
					c.Lose(o.At, "it is about some clients alone: it is left out", "write a VirtualService with sourceLabels and a fault")
					skipAll(o)
					continue
				}
				c.meant(top, o, c.fault)
			}
		}
	}
}

func (c *Conversion) fault(s *service, o *fields.Object) {
	for _, f := range o.Objects("http") {
		out := &networking.HTTPFaultInjection{}
		if abort := f.Object("abort"); abort != nil {
			code, _ := abort.Whole("httpStatus")
			share, _ := abort.Number("percentage")
			out.Abort = &networking.HTTPFaultInjection_Abort{ErrorType: &networking.HTTPFaultInjection_Abort_HttpStatus{HttpStatus: int32(min(code, 599))}, Percentage: &networking.Percent{Value: share}}
		}
		if delay := f.Object("delay"); delay != nil {
			d, _ := delay.Duration("value")
			share, _ := delay.Number("percentage")
			out.Delay = &networking.HTTPFaultInjection_Delay{HttpDelayType: &networking.HTTPFaultInjection_Delay_FixedDelay{FixedDelay: durationpb.New(d)}, Percentage: &networking.Percent{Value: share}}
		}
		if s.http() && (out.GetAbort() != nil || out.GetDelay() != nil) {
			s.said().fault = out
		}
	}
}

// destinationRule writes how a service is asked.
func (c *Conversion) destinationRule(s *service) {
	if s.rules == nil || s.rules.policy == nil && len(s.rules.subsets) == 0 {
		return
	}
	d := &networking.DestinationRule{Host: s.host(), TrafficPolicy: s.rules.policy}
	for _, name := range slices.Sorted(maps.Keys(s.rules.subsets)) {
		d.Subsets = append(d.Subsets, &networking.Subset{Name: name, Labels: s.rules.subsets[name]})
	}
	if pool := d.GetTrafficPolicy().GetConnectionPool(); pool != nil {
		if len(pool.GetHttp().String()) == 0 {
			pool.Http = nil
		}
		if len(pool.GetTcp().String()) == 0 {
			pool.Tcp = nil
		}
	}
	c.Add("DestinationRule", c.namespace, result.Name(s.name), d, s.at)
}
