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

// What an endpoint says about TLS, with the mesh's own certificates.
const (
	TLSMutual   = "istio" // it is taken
	TLSDisabled = "disabled"
)

const unixPrefix = "unix://"

// IsSocket reports whether an address is the path of a socket, as unix:///path.
func IsSocket(address string) bool { return strings.HasPrefix(address, unixPrefix) }

// Endpoint is one place where one port of a service is served.
type Endpoint struct {
	// Address is an IP address, a host name for DNS, or, with Unix set, the path of a socket.
	Address string
	Port    uint32
	Unix    bool

	PortName   string // of the service's port
	PortNumber uint32

	Labels         map[string]string
	Locality       string // region/zone/subzone
	Weight         uint32 // at least 1
	Network        string
	ServiceAccount string
	Revoked        bool   // the service account is nobody's any more: nothing is sent there
	Unhealthy      bool   // it is not well, or nobody knows yet: nothing is sent there for now
	TLSMode        string // TLSMutual where the workload takes mutual TLS, TLSDisabled where not, or what its label says
	Workload       string
	Namespace      string

	entry *kinds.Resource // the ServiceEntry that says so
	near  nearness
}

// Named reports whether the address is a name, which only a proxy can resolve.
func (e *Endpoint) Named() bool { return !e.Unix && !IsAddress(e.Address) }

// serving reports whether a proxy that resolves names may send something there.
func (e *Endpoint) serving() bool { return !e.Revoked && !e.Unhealthy && !e.Unix }

// workload is a WorkloadEntry, whether it stands alone or inside a ServiceEntry.
type workload struct {
	name, namespace string
	spec            *networking.WorkloadEntry
	labels          map[string]string
	unhealthy       bool
}

// endpoint is the workload as it serves one port.
func (w *workload) endpoint(entry *kinds.Resource, port *Port) *Endpoint {
	e := &Endpoint{
		Address: w.spec.GetAddress(), Port: w.port(port), PortName: port.Name, PortNumber: port.Number,
		Labels: w.labels, Locality: w.locality(), Weight: max(w.spec.GetWeight(), 1), Network: w.spec.GetNetwork(),
		ServiceAccount: w.spec.GetServiceAccount(), TLSMode: w.tlsMode(), Workload: w.name, Namespace: w.namespace,
		Unhealthy: w.unhealthy, entry: entry, near: nearnessOf(w.spec.GetAddress()),
	}
	if path, ok := strings.CutPrefix(w.spec.GetAddress(), unixPrefix); ok {
		e.Address, e.Port, e.Unix, e.near = path, 0, true, onMachine
	}
	return e
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

// placed adds to the labels where the workload is.
func (w *workload) placed() *workload {
	w.labels = withTopology(w.labels, w.locality(), w.spec.GetNetwork())
	return w
}

// locality is that of the entry, or of its label, which writes dots for slashes.
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

// named reports whether the address must be resolved, or is not one of the network at all.
func (w *workload) named() bool { return w.spec.GetAddress() != "" && !IsAddress(w.spec.GetAddress()) }

// inline is the i-th endpoint of a ServiceEntry as a workload.
func inline(entry, namespace string, i int, spec *networking.WorkloadEntry) *workload {
	w := &workload{name: entry + "-" + strconv.Itoa(i), namespace: namespace, spec: spec, labels: spec.GetLabels()}
	return w.placed()
}
