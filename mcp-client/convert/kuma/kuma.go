// Package kuma converts what a Kuma has: its Dataplanes and services, and its policies.
//
// A service keeps the name, the port and the labels by which Kuma's proxies know it. What is about some
// proxies alone, where the mesh speaks of a service, is told.
package kuma

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/mcp-client/convert/documents"
	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// Conversion reads resources of a mesh of Kuma, and converts all of them together.
type Conversion struct {
	*result.Set

	namespace string
	mesh      string    // the first that is named: there can be one
	settings  *resource // the Mesh itself, if it was read
	all       []*resource
	services  map[string]*service
	others    map[string]int // resources that are not converted, by their kinds
}

// resource is one of Kuma. Both of its forms are read: that of Kubernetes, and that of kumactl.
type resource struct {
	kind, name string
	labels     map[string]string
	spec       *fields.Object
	status     *fields.Object
	at         report.Place
}

// serviceTag names the service of an inbound, and protocolTag what it speaks.
const (
	serviceTag  = "kuma.io/service"
	protocolTag = "kuma.io/protocol"
)

// New returns a conversion that writes to a set.
func New(namespace string, to *result.Set) *Conversion {
	return &Conversion{Set: to, namespace: namespace, services: map[string]*service{}, others: map[string]int{}}
}

// Read reads a file, as kumactl or kubectl writes it.
func (c *Conversion) Read(file string, data []byte) error {
	return documents.Each(file, data, func(d documents.Document) error {
		if !d.IsObject() {
			return nil
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return err
		}
		c.read(value, d.At)
		return nil
	})
}

func (c *Conversion) read(value any, at report.Place) {
	o := fields.New(value, at, fields.Exactly)
	metadata := o.Object("metadata")
	r := &resource{kind: cmp.Or(o.Text("type"), o.Text("kind")), name: cmp.Or(o.Text("name"), metadata.Text("name")), labels: o.Map("labels"), status: o.Object("status"), at: at}
	if r.labels == nil {
		r.labels = metadata.Map("labels")
	}
	mesh := cmp.Or(o.Text("mesh"), r.labels["kuma.io/mesh"], "default")
	switch version := o.Text("apiVersion"); {
	case r.kind == "":
		c.Lose(at, "it has neither a type nor a kind, and is left out", "")
		return
	case o.Has("kind") && !strings.HasPrefix(version, "kuma.io/"):
		c.others[r.kind]++
		return
	case r.kind == "Mesh":
		mesh = r.name
	}
	r.at.Kind, r.at.Namespace, r.at.Name = r.kind, c.namespace, r.name
	if c.mesh = cmp.Or(c.mesh, mesh); c.mesh != mesh {
		c.Lose(r.at, "it is of the mesh "+mesh+", and others are of "+c.mesh+": it is left out", "convert each mesh by itself, into a namespace of its own (-n)")
		return
	}
	if r.spec = o.Object("spec"); r.spec == nil {
		r.spec = o
		o.Skip("creationTime", "modificationTime", "kri")
	}
	r.spec.At = r.at
	if r.kind == "Mesh" {
		c.settings = r
	}
	c.all = append(c.all, r)
}

// Of two policies of one kind Kuma takes that of a zone before that of all zones, then that of the one who runs the
// proxies.
var (
	origins = map[string]int{"global": 1, "": 2, "zone": 3}
	roles   = map[string]int{"system": 1, "producer": 2, "consumer": 3, "workload-owner": 4}
)

// of are the resources of a kind, the last name first. Of two that say a thing the later one counts, as in Kuma.
func (c *Conversion) of(kind string) []*resource {
	out := slices.DeleteFunc(slices.Clone(c.all), func(r *resource) bool { return r.kind != kind })
	slices.SortStableFunc(out, func(a, b *resource) int {
		return cmp.Or(origins[a.labels["kuma.io/origin"]]-origins[b.labels["kuma.io/origin"]], roles[a.labels["kuma.io/policy-role"]]-roles[b.labels["kuma.io/policy-role"]], strings.Compare(b.name, a.name))
	})
	return out
}

// unsaid are kinds that nothing here takes the place of by itself, and what to do.
var unsaid = map[string]string{
	"MeshHealthCheck": "write outlierDetection into the DestinationRule, or have the agent of each machine look: docs/registration.md",
	"MeshRateLimit":   "requests that it refused come through: write an EnvoyFilter with local_ratelimit first (docs/envoyfilter.md)",
	"MeshTrace":       "write a Telemetry with tracing: docs/telemetry.md",
	"MeshMetric":      "metrics are those of docs/metrics.md, without a policy",
	"MeshProxyPatch":  "write an EnvoyFilter: docs/envoyfilter.md", "MeshTLS": "write a PeerAuthentication: docs/mutual-tls.md",
	"MeshPassthrough": "write outboundTrafficPolicy into the MeshConfig, or ServiceEntries", "MeshGateway": "write a Gateway: docs/gateways.md",
	"MeshGatewayRoute": "write an HTTPRoute: docs/gateway-api.md", "MeshGatewayInstance": "start a machine with --role gateway: docs/gateways.md",
	"TrafficRoute": "write it as a MeshHTTPRoute, and convert that", "HealthCheck": "write outlierDetection into the DestinationRule", "RateLimit": "write an EnvoyFilter with local_ratelimit first",
	"MeshMultiZoneService": "write a ServiceEntry with the endpoints of all zones", "MeshIdentity": "machines get their identities by tokens: docs/tokens.md", "MeshTrust": "mcp-client trust add",
}

// converted are the kinds that become something.
var converted = []string{
	"Mesh", "Dataplane", "MeshService", "ExternalService", "MeshExternalService", "MeshTrafficPermission", "TrafficPermission", "MeshHTTPRoute", "MeshTCPRoute",
	"MeshTimeout", "MeshRetry", "MeshCircuitBreaker", "MeshLoadBalancingStrategy", "MeshFaultInjection", "MeshAccessLog",
}

// ofKuma are kinds that say nothing of requests: how Kuma itself is set up, and what it has seen.
var ofKuma = []string{
	"Zone", "ZoneInsight", "ZoneIngress", "ZoneIngressInsight", "ZoneEgress", "ZoneEgressInsight", "DataplaneInsight", "DataplaneOverview", "MeshInsight", "ServiceInsight",
	"Secret", "GlobalSecret", "Config", "HostnameGenerator", "ContainerPatch", "MeshGatewayConfig", "Workload",
}

// known are all kinds of which this conversion has heard.
func known() []string { return slices.Concat(converted, ofKuma, slices.Sorted(maps.Keys(unsaid))) }

// Recognizes reports whether a document is certainly a resource of Kuma: others have a type and a name, too, but not its kinds, and
// no mesh.
func Recognizes(d documents.Document) bool {
	version, kind := documents.Text(d.Node, "apiVersion"), documents.Text(d.Node, "type")
	if version != "" || d.At.Kind != "" {
		return strings.HasPrefix(version, "kuma.io/")
	}
	return slices.Contains(known(), kind) && documents.Text(d.Node, "name") != "" && (kind == "Mesh" || documents.Text(d.Node, "mesh") != "")
}

// unknown tells of a resource of a kind that this conversion has never heard of, such as a mistyped one.
func (c *Conversion) unknown(r *resource) {
	hint := "write by hand what it says; docs/from-kuma.md has what takes the place of what"
	if near := nearest.Word(r.kind, known()); near != "" {
		hint = `did you mean "` + near + `"?`
	}
	c.Lose(r.at, "a resource of this kind is not known, and is left out", hint)
}

// Convert writes what was read.
func (c *Conversion) Convert() {
	c.security()
	c.dataplanes()
	c.namedServices()
	c.policies()
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		s := c.services[name]
		c.entry(s)
		c.destinationRule(s)
		c.virtualService(s)
	}
	c.permissions()
	c.accessLogs()
	for _, r := range c.all {
		what, is := unsaid[r.kind]
		switch {
		case is:
			c.Lose(r.at, "a resource of this kind is not converted", what)
		case slices.Contains(ofKuma, r.kind):
			c.others[r.kind]++
		case !slices.Contains(converted, r.kind):
			c.unknown(r)
		default:
			for _, at := range r.spec.Unread() {
				c.Lose(at, "it is not understood, or has no counterpart, and is left out", "see docs/from-kuma.md")
			}
		}
	}
	c.TellOthers(c.others)
}

// security writes what the Mesh says of mutual TLS.
func (c *Conversion) security() {
	if c.settings == nil {
		return
	}
	mtls := c.settings.spec.Object("mtls")
	c.settings.spec.Skip("name", "type", "mesh", "meshServices", "skipCreatingInitialPolicies", "networking")
	enabled := mtls.Text("enabledBackend")
	for _, b := range mtls.Objects("backends") {
		name, mode := b.Text("name"), "STRICT"
		if b.Text("mode") == "PERMISSIVE" {
			mode = "PERMISSIVE"
		}
		b.Skip("type", "dpCert", "conf", "rootChain")
		if name == enabled {
			c.Add("PeerAuthentication", c.namespace, "default", map[string]any{"mtls": map[string]any{"mode": mode}}, b.At)
			c.Note(b.At, "the authority of the mesh is its own, and not the one of Kuma", "to have yours sign, see docs/own-pki.md; the two meshes do not speak mutual TLS to each other")
		}
	}
}

// secured reports whether Kuma asks for permissions. It does not without mutual TLS; a Mesh that was not read may.
func (c *Conversion) secured() bool {
	return c.settings == nil || c.settings.spec.Object("mtls").Text("enabledBackend") != ""
}

// accessLogs has proxies log where Kuma's all log to standard output. Other logs are told.
func (c *Conversion) accessLogs() {
	for _, r := range c.of("MeshAccessLog") {
		whole := refOf(r.spec.Object("targetRef")).all()
		for _, list := range []string{"to", "from", "rules"} {
			for _, o := range r.spec.Objects(list) {
				whole = whole && refOf(o.Object("targetRef")).all()
				for _, b := range o.Object("default").Objects("backends") {
					path := b.Object("file").Text("path")
					if b.Skip("type"); whole && strings.HasPrefix(path, "/dev/std") && !b.Object("file").Has("format") {
						c.AddOnce("Telemetry", c.namespace, "kuma-access-logs", map[string]any{"accessLogging": []any{map[string]any{"providers": []any{map[string]any{"name": "envoy"}}}}}, r.at)
						continue
					}
					c.Lose(b.At, "it is no log of all proxies to standard output", "write a Telemetry with accessLogging: docs/telemetry.md")
					b.Skip("file", "tcp", "openTelemetry")
				}
			}
		}
	}
}
