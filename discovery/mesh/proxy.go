package mesh

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// ProxyType is the role of an Envoy.
type ProxyType string

// The roles that a node id can name.
const (
	Sidecar ProxyType = "sidecar" // beside a workload
	Router  ProxyType = "router"  // a gateway
)

// Interception is how an application's connections reach its sidecar.
type Interception string

// The interception modes.
const (
	InterceptionRedirect Interception = "REDIRECT"
	InterceptionTProxy   Interception = "TPROXY"
	InterceptionNone     Interception = "NONE" // the application connects to the sidecar's own ports
)

// Proxy is an Envoy as it describes itself in its node.
type Proxy struct {
	Type      ProxyType
	Addresses []string // its own IP addresses, the main one first
	ID        string
	Domain    string // the DNS domain that short names are completed with

	Namespace string
	// ServiceAccount comes from the proxy's certificate. Without certificates, the proxy names it.
	ServiceAccount string
	Labels         map[string]string
	// StaticLabels are those of Labels that come from the machine's own configuration.
	StaticLabels map[string]string
	Locality     *corev3.Locality

	Interception Interception
	Unprivileged bool // may not bind ports below 1024
	IdleTimeout  time.Duration
	HTTP10       bool
	DNSCapture   bool // the mesh resolves names
	// Resolver is the resolver that the proxy itself asks on a machine whose applications are told
	// the mesh's names: asking as they do, it would find itself.
	Resolver netip.AddrPort
	// OnDemand says that the proxy asks for what it uses, and is not given all that it may use.
	OnDemand bool
	// ScopedFrom is the number of rules with exact hosts from which a gateway's routes are sent
	// host by host; 0 means never.
	ScopedFrom int
	// ReservedPorts are those on which the machine's Envoy serves its own health and metrics.
	ReservedPorts []uint32

	Identity Identity
	// Network is the network that the machine is in, in a mesh of several that cannot reach each
	// other; "" if it does not say.
	Network string
	// NetworkView are the networks whose endpoints the proxy asks for; none means all.
	NetworkView []string

	// MeshID and Cluster name the mesh, and the machine's part of it, in telemetry.
	MeshID, Cluster string

	// HTTPProxyPort is the port on which the machine's applications use the proxy as an HTTP proxy;
	// 0 if the mesh decides.
	HTTPProxyPort uint32
	// Version is the version of Istio that the proxy is of, as 1.31.0; "" if it does not say.
	Version string
	// Agent is the version of the agent beside the proxy; "" if there is none, or it is not known.
	// Istio's is the proxy's own.
	Agent string

	// PullsModules says that the agent beside the proxy fetches the modules of Wasm plugins, and takes
	// the secrets for that out of what Envoy is given. Our agents say so, as PGMESH_WASM_MODULES;
	// older ones do not, and pass on what they get.
	PullsModules bool

	// Config is the configuration that the proxy was started with; nil means that of the mesh.
	Config *meshconfig.ProxyConfig

	node *corev3.Node // what all this was read from

	// ExactBalance spreads connections evenly over Envoy's threads.
	InboundExactBalance, OutboundExactBalance bool

	// Warnings say what was left out of the proxy's metadata, and what to do about it.
	Warnings []string

	// Texts are all strings in the proxy's metadata: patches may select by them.
	Texts map[string]string
}

// Identity says how a proxy gets the certificate that proves who it is. A proxy without one sends
// and accepts plaintext.
type Identity struct {
	// FromAgent says that the agent beside the proxy serves the certificate and the mesh's roots,
	// over the cluster sds-grpc of the proxy's bootstrap. Our agents say so, as PGMESH_IDENTITY;
	// Istio's all do it, and send their version.
	FromAgent bool
	// CertificateFile, KeyFile and RootsFile are files on the machine, and are preferred.
	CertificateFile, KeyFile, RootsFile string
	// Server is what the proxy shows to clients, if that is in files.
	Server ServerFiles
}

// ServerFiles are files on a machine: a certificate, its key, and the roots of clients.
type ServerFiles struct{ Certificate, Key, Roots string }

// FromFiles reports whether the certificate is in files.
func (i Identity) FromFiles() bool { return i.CertificateFile != "" }

// Known reports whether the proxy can prove who it is as a client.
func (i Identity) Known() bool { return i.FromAgent || i.FromFiles() }

// Serves reports whether it can prove who it is as a server, and check its clients.
func (i Identity) Serves() bool {
	return i.FromAgent || i.Server.Certificate != "" && i.Server.Roots != ""
}

// ParseProxy reads what an Envoy says about itself: the id "sidecar~IP~ID~DOMAIN", and the metadata
// that Istio's agents send.
func ParseProxy(node *corev3.Node) (*Proxy, error) {
	parts := strings.Split(node.GetId(), "~")
	if len(parts) != 4 {
		return nil, fmt.Errorf("node id %q: want four parts, as in sidecar~IP~ID~DOMAIN", node.GetId())
	}
	p := &Proxy{Type: ProxyType(parts[0]), ID: parts[2], Domain: parts[3], Locality: node.GetLocality(), node: node}
	if p.Type != Sidecar && p.Type != Router {
		return nil, fmt.Errorf("node id %q: unknown proxy type %q: want %s or %s", node.GetId(), parts[0], Sidecar, Router)
	}
	meta := metadata{node.GetMetadata().GetFields()}
	if err := p.setAddresses(parts[1], meta.text("INSTANCE_IPS")); err != nil {
		return nil, fmt.Errorf("node id %q: %w", node.GetId(), err)
	}
	if err := p.setMetadata(meta); err != nil {
		return nil, fmt.Errorf("node id %q: metadata: %w", node.GetId(), err)
	}
	return p, nil
}

// setAddresses sets the proxy's addresses: the one in its id first, then those in its metadata.
func (p *Proxy) setAddresses(main, more string) error {
	if main != "" {
		if _, err := netip.ParseAddr(main); err != nil {
			return fmt.Errorf("%q is not an IP address", main)
		}
		p.Addresses = append(p.Addresses, main)
	}
	for ip := range strings.SplitSeq(more, ",") {
		if ip != "" && ip != main && IsAddress(ip) {
			p.Addresses = append(p.Addresses, ip)
		}
	}
	if len(p.Addresses) == 0 {
		return errors.New("no IP address, neither in the id nor in the metadata INSTANCE_IPS")
	}
	return nil
}

// setMetadata reads the node's metadata. It fails only for what the proxy cannot be served without;
// other values that cannot be read are left out, with a warning.
func (p *Proxy) setMetadata(meta metadata) (err error) {
	p.Namespace = meta.text("NAMESPACE")
	if first, _, dotted := strings.Cut(p.Domain, "."); p.Namespace == "" && dotted {
		p.Namespace = first
	}
	p.ServiceAccount = meta.text("SERVICE_ACCOUNT")
	p.Network, p.NetworkView = meta.text("NETWORK"), meta.list("REQUESTED_NETWORK_VIEW")
	p.StaticLabels = meta.labels("STATIC_LABELS")
	if at := meta.labels("STATIC_LABELS", "LABELS")[labelLocality]; at != "" && p.Locality.GetRegion() == "" {
		p.Locality = parseLocality(strings.ReplaceAll(at, ".", "/"))
	}
	p.Labels = withTopology(meta.labels("STATIC_LABELS", "LABELS"), LocalityText(p.Locality), p.Network)
	if p.Network == "" {
		p.Network = p.Labels[LabelNetwork]
	}
	p.Texts = meta.texts()
	p.Version = meta.text("ISTIO_VERSION")
	p.Agent = p.Version
	p.PullsModules = meta.text("PGMESH_WASM_MODULES") != "" || agentOfIstioPulls(p.Version)
	p.MeshID, p.Cluster = meta.text("MESH_ID"), meta.text("CLUSTER_ID")
	p.Unprivileged = meta.flag("UNPRIVILEGED_POD")
	p.HTTP10 = meta.flag("HTTP10")
	p.DNSCapture = meta.flag("DNS_CAPTURE")
	if at := meta.text("PGMESH_DNS_RESOLVER"); at != "" {
		if p.Resolver, err = netip.ParseAddrPort(at); err != nil {
			return fmt.Errorf("PGMESH_DNS_RESOLVER: %q is no address with a port: write it as 127.0.0.1:15054", at)
		}
	}
	p.OnDemand = p.Type == Sidecar && meta.flag("ON_DEMAND")
	p.ReservedPorts = meta.ports("ENVOY_STATUS_PORT", "ENVOY_PROMETHEUS_PORT", "ENVOY_SECURE_METRICS_PORT", "ENVOY_SECURE_MERGED_METRICS_PORT")
	if ports := meta.ports("HTTP_PROXY_PORT"); len(ports) > 0 {
		p.HTTPProxyPort = ports[0]
	}
	p.InboundExactBalance = meta.flag("INBOUND_LISTENER_EXACT_BALANCE")
	p.OutboundExactBalance = meta.flag("OUTBOUND_LISTENER_EXACT_BALANCE")
	p.Identity = Identity{
		FromAgent:       meta.text("PGMESH_IDENTITY") != "" || meta.text("ISTIO_VERSION") != "",
		CertificateFile: meta.text("TLS_CLIENT_CERT_CHAIN"), KeyFile: meta.text("TLS_CLIENT_KEY"), RootsFile: meta.text("TLS_CLIENT_ROOT_CERT"),
	}
	if files := (ServerFiles{meta.text("TLS_SERVER_CERT_CHAIN"), meta.text("TLS_SERVER_KEY"), meta.text("TLS_SERVER_ROOT_CERT")}); files.Certificate != "" && files.Key != "" {
		p.Identity.Server = files
	}
	p.Interception = parseInterception(meta.text("INTERCEPTION_MODE"))
	if p.Config, err = parseProxyConfig(meta.fields["PROXY_CONFIG"]); err != nil {
		return err
	}
	p.setIdleTimeout(meta.text("IDLE_TIMEOUT"))
	return nil
}

// setIdleTimeout ignores a timeout that cannot be read, as Istio does: that is no reason to refuse
// a proxy.
func (p *Proxy) setIdleTimeout(text string) {
	if text == "" {
		return
	}
	timeout, err := time.ParseDuration(text)
	switch {
	case err != nil:
		p.warnf("IDLE_TIMEOUT: %.64q is not a duration, and is left out: write it as 5s or 1h", text)
	case timeout < 0:
		p.warnf("IDLE_TIMEOUT: %.64q is less than nothing, and is left out", text)
	default:
		p.IdleTimeout = timeout
	}
}

// warnf records what is left out of the proxy's metadata.
func (p *Proxy) warnf(format string, about ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, about...))
}

// parseInterception takes an unknown mode for REDIRECT, as Istio does, so that proxies of newer
// agents are served.
func parseInterception(mode string) Interception {
	switch i := Interception(mode); i {
	case InterceptionTProxy, InterceptionNone:
		return i
	case InterceptionRedirect:
		fallthrough
	default:
		return InterceptionRedirect
	}
}

// wildcard is the address that means all of the proxy's.
func (p *Proxy) wildcard() string {
	if p.HasIPv6() && !p.HasIPv4() {
		return "::"
	}
	return Unspecified
}

// CanonicalName is the name of the workload's service, as Istio's injector labels it.
func (p *Proxy) CanonicalName() string { return cmp.Or(p.Labels[LabelCanonicalName], "unknown") }

// CanonicalRevision is the version of the workload, likewise.
func (p *Proxy) CanonicalRevision() string { return cmp.Or(p.Labels[LabelCanonicalRevision], "latest") }

// GlobalAddress is the first address at which other machines may reach the proxy, or "".
func (p *Proxy) GlobalAddress() string {
	for _, a := range p.Addresses {
		if ip, err := netip.ParseAddr(a); err == nil && ip.IsGlobalUnicast() {
			return a
		}
	}
	return ""
}

// HasIPv4 reports whether the proxy has an address of this family.
func (p *Proxy) HasIPv4() bool { return p.hasAddress(netip.Addr.Is4) }

// HasIPv6 reports whether the proxy has an address of this family.
func (p *Proxy) HasIPv6() bool { return p.hasAddress(netip.Addr.Is6) }

func (p *Proxy) hasAddress(family func(netip.Addr) bool) bool {
	for _, a := range p.Addresses {
		if ip, err := netip.ParseAddr(a); err == nil && family(ip.Unmap()) {
			return true
		}
	}
	return false
}

// metadata reads node metadata leniently: agents write flags and numbers as such, or as strings.
type metadata struct{ fields map[string]*structpb.Value }

func (m metadata) text(name string) string {
	switch v := m.fields[name].GetKind().(type) {
	case *structpb.Value_StringValue:
		return v.StringValue
	case *structpb.Value_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *structpb.Value_NumberValue:
		return fmt.Sprint(v.NumberValue)
	default:
		return ""
	}
}

// list reads a list of words, which some agents write as one string with commas.
func (m metadata) list(name string) (out []string) {
	values := m.fields[name].GetListValue().GetValues()
	if text := m.text(name); text != "" {
		return strings.Split(text, ",")
	}
	for _, v := range values {
		out = append(out, v.GetStringValue())
	}
	return out
}

// texts are the fields that are strings.
func (m metadata) texts() map[string]string {
	out := map[string]string{}
	for name, field := range m.fields {
		if v, isText := field.GetKind().(*structpb.Value_StringValue); isText {
			out[name] = v.StringValue
		}
	}
	return out
}

func (m metadata) flag(name string) bool {
	switch m.text(name) {
	case "true", "1":
		return true
	default:
		return false
	}
}

// ports reads those of the named fields that hold a port.
func (m metadata) ports(names ...string) []uint32 {
	var out []uint32
	for _, name := range names {
		if port, err := strconv.ParseUint(m.text(name), 10, 16); err == nil && port > 0 {
			out = append(out, uint32(port))
		}
	}
	return out
}

// labels are the workload's labels from the named fields. Later fields overrule earlier ones.
func (m metadata) labels(fields ...string) map[string]string {
	out := map[string]string{}
	for _, name := range fields {
		for k, v := range m.fields[name].GetStructValue().GetFields() {
			out[k] = v.GetStringValue()
		}
	}
	return out
}
