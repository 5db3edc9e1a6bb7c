package translate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/discovery/translate/division"
	"github.com/pgmesh/pgmesh/discovery/translate/extension"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/kinds"
)

// input is a file of testdata: a proxy and the resources that it is given.
type input struct {
	Proxy struct {
		Node     string
		Metadata map[string]any
		Locality string // region/zone/subzone
		// ScopedFrom is how many rules it takes for the routes of a router to be sent host by host.
		ScopedFrom int `yaml:"scopedFrom"`
	}
	// Show has patterns of the names to show, for clusters, endpoints, listeners, routes, scopes,
	// secrets and extensions. Unpatched shows all failed patches.
	Show map[string][]string
	// Trust is whom the mesh trusts besides what its resources say.
	Trust mesh.Trust
	// Traces shows what connection managers say of tracing. It is the same nearly everywhere.
	Traces bool
	// Unchecked resources may break rules of their kinds, as those of another config server may.
	Unchecked bool

	resources []*kinds.Resource
}

func readInput(t *testing.T, file string) input {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	head, documents, found := strings.Cut(string(text), "\n---\n")
	require.True(t, found, "%s: want a document that names the proxy, then resources", file)
	var in input
	require.NoError(t, yaml.Unmarshal([]byte(head), &in))
	if in.Unchecked {
		in.resources = decode(t, documents)
	} else {
		in.resources = parse(t, file, documents)
	}
	return in
}

// decode reads resources as they come over MCP.
func decode(t *testing.T, text string) (resources []*kinds.Resource) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var d struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			Metadata   struct{ Name, Namespace string }
			Spec       any
		}
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			return resources
		}
		require.NoError(t, err)
		kind, err := kinds.ByAPIVersion(d.APIVersion, d.Kind)
		require.NoError(t, err)
		spec, err := json.Marshal(d.Spec)
		require.NoError(t, err)
		message, err := kind.Decode(spec)
		require.NoError(t, err)
		resources = append(resources, &kinds.Resource{Kind: kind, Namespace: d.Metadata.Namespace, Name: d.Metadata.Name, Spec: kinds.SpecOf(message)})
	}
}

func parse(t *testing.T, file, text string) []*kinds.Resource {
	t.Helper()
	documents, err := kinds.Parse(file, []byte(text))
	require.NoError(t, err)
	resources := make([]*kinds.Resource, len(documents))
	for i, d := range documents {
		resources[i] = d.Resource
	}
	return resources
}

func (in input) proxy(t *testing.T) *mesh.Proxy {
	t.Helper()
	metadata, err := structpb.NewStruct(in.Proxy.Metadata)
	require.NoError(t, err)
	at := append(strings.SplitN(in.Proxy.Locality, "/", 3), "", "")
	p, err := mesh.ParseProxy(&corev3.Node{
		Id: in.Proxy.Node, Metadata: metadata, Locality: &corev3.Locality{Region: at[0], Zone: at[1], SubZone: at[2]},
	})
	require.NoError(t, err)
	p.ScopedFrom = in.Proxy.ScopedFrom
	return p
}

// output is everything that a proxy is given.
type output struct {
	clusters  []*clusterv3.Cluster
	endpoints []*endpointv3.ClusterLoadAssignment
	listeners []*listenerv3.Listener
	routes    []*routev3.RouteConfiguration
	scopes    []*routev3.ScopedRouteConfiguration
	secrets   []*tlsv3.Secret

	extensions []*corev3.TypedExtensionConfig
	// unpatched has a line for each patch that was not applied to a resource.
	unpatched []string
}

func (in input) translate(t *testing.T, resources []*kinds.Resource) output {
	t.Helper()
	batch := kinds.Batch{Revision: 1}
	for _, r := range resources {
		batch.Changes = append(batch.Changes, kinds.Change{Key: r.Key(), Resource: r})
	}
	m := mesh.Build(configstore.New().Apply(batch), nil).WithTrust(in.Trust)
	return translated(m, m.Configured(in.proxy(t)))
}

// translated is what a proxy is given, with the patches that are for it.
func translated(m *mesh.Mesh, p *mesh.Proxy) output {
	v, patches := view.Of(m, p), envoyfilter.For(m, p)
	out := output{
		clusters: patches.Clusters(translate.Clusters(v)), endpoints: translate.Endpoints(v),
		listeners: patches.Listeners(translate.Listeners(v)), routes: patches.Routes(translate.Routes(v)),
		secrets:    secret.Of(v),
		extensions: patches.Extensions(extension.Configs(v)),
	}
	for _, whole := range out.routes {
		out.scopes = append(out.scopes, division.Patched(v, whole).Scopes...)
	}
	for _, f := range patches.Failures() {
		out.unpatched = append(out.unpatched, fmt.Sprintf("%s/%s: %s: %s: %s", f.Patch.From.Namespace, f.Patch.From.Name, f.Path(), f.Resource, f.Reason))
	}
	return out
}

func (o output) byKind() map[string][]proto.Message {
	return map[string][]proto.Message{
		"clusters": messages(o.clusters), "endpoints": messages(o.endpoints),
		"listeners": messages(o.listeners), "routes": messages(o.routes), "scopes": messages(o.scopes), "secrets": messages(o.secrets), "extensions": messages(o.extensions),
	}
}

func messages[M proto.Message](list []M) []proto.Message {
	out := make([]proto.Message, len(list))
	for i, m := range list {
		out[i] = m
	}
	return out
}

func name(m proto.Message) string {
	if assignment, ok := m.(*endpointv3.ClusterLoadAssignment); ok {
		return assignment.GetClusterName()
	}
	return m.(interface{ GetName() string }).GetName()
}

// requireValid checks every message with the validators of Envoy's API, and that no name is there
// twice.
func (o output) requireValid(t *testing.T) {
	t.Helper()
	for kind, list := range o.byKind() {
		seen := map[string]bool{}
		for _, m := range list {
			require.NoError(t, m.(interface{ ValidateAll() error }).ValidateAll(), "%s %s", kind, name(m))
			require.False(t, seen[name(m)], "%s has %s twice", kind, name(m))
			seen[name(m)] = true
		}
	}
}
