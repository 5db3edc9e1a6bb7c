package kinds

import (
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// hintFor helps with an unknown kind. It names what takes its place here, the nearest kind, or the command that lists all. It lists
// none itself, so that the error stays one line.
func hintFor(word string) string {
	if here := counterpartOf(word); here != "" {
		return here
	}
	if near := nearest.Word(word, kindNames()); near != "" {
		return `did you mean "` + near + `"?`
	}
	return "mcp-client kinds lists them"
}

// counterpartOf says what a kind of another program is here, "" if it is not known. The word may be a plural and have a
// group, such as meshretries.kuma.io.
func counterpartOf(word string) string {
	name, _, _ := strings.Cut(strings.ToLower(word), ".")
	singulars := []string{name, strings.TrimSuffix(name, "s"), strings.TrimSuffix(name, "es")}
	if stem, found := strings.CutSuffix(name, "ies"); found {
		singulars = append(singulars, stem+"y")
	}
	for _, c := range counterparts {
		if slices.ContainsFunc(strings.Fields(c.kinds), func(kind string) bool { return slices.Contains(singulars, kind) }) {
			return c.here
		}
	}
	return ""
}

// Counterparts returns what kinds of other programs are said to be here.
func Counterparts() map[string]string {
	all := map[string]string{}
	for _, c := range counterparts {
		for kind := range strings.FieldsSeq(c.kinds) {
			all[kind] = c.here
		}
	}
	return all
}

// counterparts says of kinds of Kubernetes and Kuma, in lower case, what they are here.
var counterparts = []struct{ kinds, here string }{
	{"service svc", "here it is a ServiceEntry, which mcp-client convert makes; mcp-client services lists services with their endpoints"},
	{"endpoint ep endpointslice", "here it is a WorkloadEntry, which mcp-client convert makes; mcp-client services lists services with their endpoints"},
	{"pod po", "here it is a WorkloadEntry; mcp-client proxy-status lists proxies"},
	{"deployment deploy replicaset rs statefulset sts daemonset ds", "here it is a WorkloadGroup, whose machines join by themselves"},
	{"ingress ing", "here it is an HTTPRoute with a Gateway; mcp-client convert writes both"},
	{"namespace ns", "mcp-client namespaces lists them"},
	{"node no machine", "mcp-client machines list lists machines"},
	{"event ev", "mcp-client history lists changes, and mcp-client problems what is wrong"},
	{"configmap cm", "what istiod reads from a ConfigMap is here a MeshConfig or a MeshNetworks"},
	{"secret", "mcp-client secret list lists secrets"},
	{"serviceaccount sa", "mcp-client identity list lists who has a certificate"},
	{"role rolebinding clusterrole clusterrolebinding", "what a caller may do is in the scopes of its token: mcp-client token list"},
	{"networkpolicy netpol", "here it is an AuthorizationPolicy"},
	{"customresourcedefinition crd", "mcp-client kinds lists the kinds"},
	{"context", "mcp-client context list lists contexts"},
	{"token", "mcp-client token list lists tokens"},
	{"proxy", "mcp-client proxy-status lists proxies"},

	{"dataplane dataplaneinsight dataplaneoverview", "here it is a WorkloadEntry; mcp-client proxy-status lists proxies"},
	{"zone zoneinsight zoneingress zoneegress", "a zone is the first part of the locality of a WorkloadEntry"},
	{"mesh meshinsight", "a mesh is a database; mcp-client namespaces lists what is apart within one"},
	{"meshservice meshexternalservice meshmultizoneservice externalservice", "here it is a ServiceEntry"},
	{"meshhttproute meshtcproute meshtimeout meshretry meshfaultinjection trafficroute timeout retry faultinjection", "here it is a part of a VirtualService"},
	{"meshcircuitbreaker meshloadbalancingstrategy circuitbreaker", "here it is a part of a DestinationRule"},
	{"meshhealthcheck healthcheck", "here it is outlierDetection in a DestinationRule, or a probe of the agent"},
	{"meshtrafficpermission trafficpermission", "here it is an AuthorizationPolicy"},
	{"meshaccesslog meshtrace trafficlog traffictrace", "here it is a Telemetry"},
	{"meshmetric", "metrics are the same for all proxies, without a resource"},
	{"meshproxypatch proxytemplate meshratelimit ratelimit", "here it is an EnvoyFilter"},
	{"meshtls", "here it is a PeerAuthentication"},
	{"meshpassthrough", "here it is outboundTrafficPolicy in a MeshConfig, or a ServiceEntry"},
	{"meshgateway meshgatewayinstance", "here it is a Gateway, and a machine that runs with --role gateway"},
	{"meshgatewayroute", "here it is an HTTPRoute"},
	{"meshidentity", "identities come with join tokens: mcp-client token create"},
	{"meshtrust", "mcp-client trust list lists what other meshes are trusted"},
}
