package division

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/scoped"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// Patched divides a route configuration of a proxy that was made whole, since patches want it so.
func Patched(v view.View, whole *routev3.RouteConfiguration) Divided {
	d := ByHost(whole)
	if scoped.Offered(v, whole.GetName()) {
		d.Scopes = scoped.Divide(whole)
	}
	return d
}

// ByHost divides a whole route configuration into its virtual hosts.
func ByHost(whole *routev3.RouteConfiguration) Divided {
	if holdsHosts(whole.GetName()) {
		return Divided{Configuration: whole}
	}
	d := Divided{Configuration: message.Copied(whole)}
	d.Configuration.VirtualHosts = nil
	askForHosts(d.Configuration)
	hosts := whole.GetVirtualHosts()
	if len(hosts) == 0 {
		hosts = []*routev3.VirtualHost{virtualhost.Nobody.Message(false)}
	}
	for _, host := range hosts {
		host = message.Copied(host)
		host.Name = naming.Host(whole.GetName(), host.GetName())
		d.Hosts = append(d.Hosts, host)
	}
	return d
}
