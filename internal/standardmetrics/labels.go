package standardmetrics

import (
	"cmp"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/pgmesh/pgmesh/identity"
)

// Label is a label of a metric.
type Label struct{ Name, Value string }

// unknown is the value of what is not known, as by Istio.
const unknown = "unknown"

// Labels are Istio's labels of a series, in Istio's order. It reports false for a tag that is none
// of these.
func Labels(tag string) ([]Label, bool) {
	s, ok := parse(tag)
	if !ok {
		return nil, false
	}
	peer, at := s.peer(), s.service()
	own := s.Own.named(s.OwnID)
	source, destination := end{own, s.OwnID}, end{peer, s.PeerID}
	if s.Reporter == Destination {
		source, destination = destination, source
	}
	out := append([]Label{{"reporter", string(s.Reporter)}}, source.labels("source")...)
	out = append(out, destination.labels("destination")...)
	out = append(out, Label{"destination_service", or(at.Host)}, Label{"destination_service_name", or(at.Name)},
		Label{"destination_service_namespace", or(at.Namespace)}, Label{"request_protocol", s.Protocol})
	if s.Protocol != TCP {
		out = append(out, Label{"response_code", cmp.Or(s.Code, "0")}, Label{"grpc_response_status", s.GRPC})
	}
	return append(out, Label{"response_flags", cmp.Or(s.Flags, "-")}, Label{"connection_security_policy", s.security()}), true
}

// The protocols of requests.
const (
	HTTP = "http"
	GRPC = "grpc"
	TCP  = "tcp"
)

func or(value string) string { return cmp.Or(value, unknown) }

// end is one end of a connection.
type end struct {
	Workload
	id string
}

func (e end) labels(of string) []Label {
	return []Label{
		{of + "_workload", or(e.Service)},
		{of + "_canonical_service", or(e.Service)},
		{of + "_canonical_revision", cmp.Or(e.Revision, "latest")},
		{of + "_workload_namespace", or(e.Namespace)},
		{of + "_principal", or(e.id)},
		{of + "_app", or(e.App)},
		{of + "_version", or(e.Version)},
		{of + "_cluster", or(e.Cluster)},
	}
}

// named takes from an identity what nothing else tells: a workload without a name is called like
// its account.
func (w Workload) named(id string) Workload {
	if parsed, err := spiffeid.FromString(id); err == nil {
		if who, ok := identity.WorkloadOf(parsed); ok {
			w.Namespace, w.Service = cmp.Or(w.Namespace, who.Namespace), cmp.Or(w.Service, who.ServiceAccount)
		}
	}
	return w
}

// peer is the workload at the other end. Of what its certificate says of it, the namespace is the
// one of its identity.
func (s Series) peer() (w Workload) {
	if s.Reporter == Source {
		w = parseEndpoint(s.Peer)
	} else if s.PeerID != "" {
		w, _ = ParseWorkload(s.Peer)
		w.Namespace = ""
	}
	return w.named(s.PeerID)
}

// service is what was asked for. The host of a request is none of it: anybody can write there
// whatever they like.
func (s Series) service() service {
	if s.Reporter == Destination {
		if s.Service == "" {
			return service{Name: "InboundPassthroughCluster"}
		}
		return service{s.Service, s.Service, s.Own.Namespace}
	}
	if listed, ok := servicesIn(s.Peer); ok {
		return listed
	}
	direction, rest, _ := strings.Cut(s.Service, "|")
	if direction != "outbound" && direction != "outbound_" {
		return service{Name: s.Service}
	}
	host := rest[strings.LastIndex(rest, "|")+1:]
	return service{host, host, parseEndpoint(s.Peer).Namespace}
}

// security tells how the connection was secured, as far as the one who was called knows.
func (s Series) security() string {
	switch {
	case s.Reporter == Source:
		return unknown
	case s.PeerID != "":
		return "mutual_tls"
	default:
		return "none"
	}
}
