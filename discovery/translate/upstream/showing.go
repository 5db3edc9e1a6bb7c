package upstream

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// A Gateway says which certificate its machines show to backends. A machine may serve several Gateways,
// which may show different ones, so for each there are clusters of their own beside those of services:
// for ports where a BackendTLSPolicy asks for TLS, and for them alone.

// Shown are the credentials of what a proxy shows to backends, by the Gateways that it serves.
func Shown(v view.View) []string {
	if v.Sidecar() {
		return nil
	}
	return v.Mesh.Frontend(v.Proxy).Shown()
}

// showing returns the upstreams of a backend that are shown a certificate.
func showing(v view.View, b Backend, credential string) []Upstream {
	out := slices.DeleteFunc(Of(v, b), func(u Upstream) bool { return !u.securedByPolicy() })
	for i := range out {
		out[i].Shows = credential
	}
	return out
}

// Destination names a destination's cluster: that which is shown a certificate, if there is one. The
// service may be nil, and the credential "".
func Destination(v view.View, d *networking.Destination, s *mesh.Service, port uint32, credential string) string {
	name := naming.Destination(d, s, port)
	if credential == "" || s == nil {
		return name
	}
	for _, u := range showing(v, BackendOf(v, s), credential) {
		if naming.Cluster(u.Port.Number, u.Subset.GetName(), s.Hostname) == name {
			return u.Name()
		}
	}
	return name
}
