package consul

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// entries say what takes the place of config entries that are not converted.
var entries = map[string]string{
	"ingress-gateway":             "write a Gateway, and a VirtualService for its hosts: docs/gateways.md",
	"api-gateway":                 "write a Gateway of the Gateway API: docs/gateway-api.md",
	"http-route":                  "write an HTTPRoute: docs/gateway-api.md",
	"tcp-route":                   "write a TCPRoute: docs/gateway-api.md",
	"inline-certificate":          "mcp-client secret create tls NAME --cert CERT --key KEY",
	"file-system-certificate":     "mcp-client secret create tls NAME --cert CERT --key KEY",
	"terminating-gateway":         "write a ServiceEntry with location: MESH_EXTERNAL for each of its services; no gateway is needed on the way",
	"mesh":                        "write what it says of TLS into tlsDefaults of the MeshConfig, and of who may leave the mesh into outboundTrafficPolicy",
	"jwt-provider":                "write a RequestAuthentication: docs/request-authentication.md",
	"exported-services":           "write exportTo into the ServiceEntry; another mesh reads this one as a registry: docs/clusters.md",
	"sameness-group":              "regions take its place: write localityLbSetting into the DestinationRule",
	"control-plane-request-limit": "it is about Consul's servers, and nothing takes its place",
}

// properties say what takes the place of fields that are not converted.
var properties = map[string]string{
	"maxinboundconnections":     "bound what each client opens: connectionPool.tcp.maxConnections of the DestinationRule",
	"localconnecttimeoutms":     "applications are asked on their own machine: leave it out",
	"localrequesttimeoutms":     "write timeout into the routes of the VirtualService",
	"upstreamconfig":            "limits and passive health checks are connectionPool and outlierDetection of the DestinationRule of each service that is asked",
	"envoyextensions":           "write an EnvoyFilter: docs/envoyfilter.md",
	"ratelimits":                "write an EnvoyFilter with local_ratelimit: docs/envoyfilter.md",
	"meshgateway":               "proxies reach machines of other networks by themselves: docs/networks.md",
	"transparentproxy":          "mesh-agent redirects connections: docs/redirection.md",
	"mode":                      "mesh-agent redirects connections: docs/redirection.md",
	"mutualtlsmode":             "write a PeerAuthentication: docs/mutual-tls.md",
	"expose":                    "write a PeerAuthentication with portLevelMtls for the port of the probes: docs/mutual-tls.md",
	"failoverpolicy":            "regions stand in for each other: write localityLbSetting into the DestinationRule",
	"prioritizebylocality":      "proxies prefer their own region once the DestinationRule has outlierDetection",
	"externalsni":               "write tls.sni into the DestinationRule",
	"balanceinboundconnections": "Envoy divides connections among its threads by itself: leave it out",
	"maxrequestheaderskb":       "write an EnvoyFilter: docs/envoyfilter.md",
}

// insteadOf says what to do about a field that nobody has read: about the outermost that is known.
func insteadOf(at report.Place) string {
	for name := range strings.SplitSeq(at.Path, ".") {
		if instead := properties[fields.AnyCase(name)]; instead != "" {
			return instead
		}
	}
	return "if it matters to requests, say it by hand: docs/from-consul.md has what becomes of what"
}

// tellProxies tells how many of Consul's own proxies there were.
func (c *Conversion) tellProxies() {
	if len(c.proxies) == 0 {
		return
	}
	var counted []string
	for _, kind := range slices.Sorted(maps.Keys(c.proxies)) {
		counted = append(counted, fmt.Sprintf("%d %s", c.proxies[kind], kind))
	}
	c.Note(report.Place{}, "proxies of Consul's own mesh are left out: "+strings.Join(counted, ", "), "an Envoy of mesh-agent takes the place of a sidecar, and a Gateway that of a gateway")
}
