package mesh

import (
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Labels with a meaning of their own.
const (
	labelLocality          = "istio-locality"
	labelTLSMode           = "security.istio.io/tlsMode"
	LabelCanonicalName     = "service.istio.io/canonical-name"
	LabelCanonicalRevision = "service.istio.io/canonical-revision"
)

// What an endpoint says about mutual TLS.
const (
	TLSMutual   = "istio" // the workload accepts it
	TLSDisabled = "disabled"
)

const unixPrefix = "unix://"

// IsSocket reports whether an address is the path of a socket, as unix:///path.
func IsSocket(address string) bool { return strings.HasPrefix(address, unixPrefix) }

// Endpoint is a place where one port of a service is served.
type Endpoint struct {
	// Address is an IP address, a host name for DNS, or, with Unix set, the path of a socket.
	Address string
	Port    uint32
	Unix    bool

	PortName   string // of the service's port
	PortNumber uint32
	Datagrams  bool // the service's port is one of UDP

	Labels         map[string]string
	Locality       string // region/zone/subzone
	Weight         uint32 // at least 1
	Network        string
	ServiceAccount string
	Revoked        bool   // the service account was revoked: nothing is sent there
	Unhealthy      bool   // the workload is unhealthy, or its health is not known yet: nothing is sent there for now
	Draining       bool   // the workload is about to leave: nobody has it as an endpoint, and its own proxy goes on to serve
	TLSMode        string // TLSMutual if the workload accepts mutual TLS, TLSDisabled if not, or what its label says
	Workload       string
	Namespace      string

	standalone bool            // it is of a WorkloadEntry, which entry selects
	entry      *kinds.Resource // the ServiceEntry that declares it
	near       nearness
}

// Named reports whether the address is a name, which only a proxy can resolve.
func (e *Endpoint) Named() bool { return !e.Unix && !IsAddress(e.Address) }

// Standalone reports whether the endpoint is of a WorkloadEntry of its own, which Workload names.
func (e *Endpoint) Standalone() bool { return e.standalone }

// TakesRequests reports whether proxies send requests there, as far as the mesh knows of it.
func (e *Endpoint) TakesRequests() bool { return !e.Revoked && !e.Unhealthy && !e.Draining }

// serving reports whether a proxy that resolves names may send requests there.
func (e *Endpoint) serving() bool { return !e.Revoked && !e.Unhealthy && !e.Unix }

// workload is a WorkloadEntry, whether it stands alone or inside a ServiceEntry.
type workload struct {
	name, namespace string
	spec            *networking.WorkloadEntry
	labels          map[string]string
	health          string
	standalone      bool // it is a WorkloadEntry of its own
}

// endpoint returns the workload as an endpoint for one port.
func (w *workload) endpoint(entry *kinds.Resource, port *Port) *Endpoint {
	e := &Endpoint{
		Address: w.spec.GetAddress(), Port: w.port(port), PortName: port.Name, PortNumber: port.Number, Datagrams: port.takesDatagrams(),
		Labels: w.labels, Locality: w.locality(), Weight: max(w.spec.GetWeight(), 1), Network: w.network(),
		ServiceAccount: w.spec.GetServiceAccount(), TLSMode: w.tlsMode(), Workload: w.name, Namespace: w.namespace,
		Unhealthy: kinds.KeepsAway(w.health), Draining: w.health == kinds.HealthDraining, standalone: w.standalone, entry: entry, near: nearnessOf(w.spec.GetAddress()),
	}
	if path, ok := strings.CutPrefix(w.spec.GetAddress(), unixPrefix); ok {
		e.Address, e.Port, e.Unix, e.near = path, 0, true, onMachine
	}
	return e
}

// serves reports whether the endpoint is that of a port, by its number.
func (e *Endpoint) serves(port *Port) bool {
	return e.PortNumber == port.Number && e.Datagrams == port.takesDatagrams()
}

func (w *workload) port(port *Port) uint32 {
	if p := w.spec.GetPorts()[port.Name]; p > 0 {
		return p
	}
	if port.Target > 0 {
		return port.Target
	}
	return port.Number
}

// placed adds the workload's location to its labels.
func (w *workload) placed() *workload {
	w.labels = withTopology(w.labels, w.locality(), w.spec.GetNetwork())
	return w
}

// network is the entry's, or that of its label.
func (w *workload) network() string {
	if w.spec.GetNetwork() != "" {
		return w.spec.GetNetwork()
	}
	return w.labels[LabelNetwork]
}

// locality is the entry's, or that of its label, which has dots for slashes.
func (w *workload) locality() string {
	if w.spec.GetLocality() != "" {
		return w.spec.GetLocality()
	}
	return strings.ReplaceAll(w.labels[labelLocality], ".", "/")
}

func (w *workload) tlsMode() string {
	if mode, ok := w.labels[labelTLSMode]; ok {
		return mode
	}
	if w.spec.GetServiceAccount() != "" {
		return TLSMutual
	}
	return TLSDisabled
}

// named reports whether the address must be resolved, or is no network address at all.
func (w *workload) named() bool { return w.spec.GetAddress() != "" && !IsAddress(w.spec.GetAddress()) }

// inline is the i-th endpoint of a ServiceEntry as a workload.
func inline(entry, namespace string, i int, spec *networking.WorkloadEntry) *workload {
	labels, health := apart(spec.GetLabels())
	w := &workload{name: entry + "-" + strconv.Itoa(i), namespace: namespace, spec: spec, labels: labels, health: health}
	return w.placed()
}
