package rows

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// sides are the two meshes, and what a proxy of each Gateway and a sidecar of each namespace have of
// them.
type sides struct {
	t          *testing.T
	cluster    *kubetest.Cluster
	kubernetes *stack.Stack // reads the cluster
	rows       *stack.Stack // knows no cluster
	// proxies have what they are sent of rows, and of the other.
	proxies map[string][2]*received
}

// What the manifests of the suite mean is the same for rows and for a cluster, to the letter of what
// proxies are sent.
func TestRowsMeanWhatObjectsOfAClusterMean(t *testing.T) {
	all := manifests(t)
	s := newSides(t, all)
	for _, m := range all {
		s.cluster.Apply(m.path(), m.object)
		if m.kind == "Service" {
			s.serve(m)
		}
	}
	s.certify(all)
	s.write(all)
	s.connect(all)
	poll.Within(t, time.Minute, s.differ)
	routes, listeners := s.count()
	t.Logf("%d proxies have the same of both, with %d listeners and %d lists of routes", len(s.proxies), listeners, routes)

	said, err := s.rows.Client(t.Context(), "", "delete", "httproute/matching", "-n", "gateway-conformance-infra")
	require.NoError(t, err, said)
	poll.Eventually(t, func(ctx context.Context) error {
		if s.differ(ctx) == nil {
			return errors.New("a route that rows lack is not seen to be missing")
		}
		return nil
	})
}

func newSides(t *testing.T, all []manifest) *sides {
	t.Helper()
	s := &sides{t: t, cluster: kubetest.Start(t), proxies: map[string][2]*received{}}
	s.cluster.InstallExperimentalGatewayAPI()
	bin := t.TempDir()
	require.NoError(t, stack.BuildFrom(t.Context(), "../../..", bin, "mcp-server", "mcp-client", "discovery"))
	key := filepath.Join(bin, "secrets.key")
	var namespaces []string
	for _, m := range all {
		if m.kind == "Namespace" {
			namespaces = append(namespaces, m.name)
		}
	}
	start := func(name string, flags ...string) *stack.Stack {
		one, err := stack.New(bin, t.TempDir(), pgtest.New(t))
		require.NoError(t, err)
		one.ServerFlags(flags...)
		t.Cleanup(func() {
			one.Stop()
			if t.Failed() {
				t.Logf("%s: mcp-server's log:\n%s\ndiscovery's log:\n%s", name, one.MCPServer.Log(), one.Discovery.Log())
			}
		})
		require.NoError(t, one.Start(t.Context()))
		return one
	}
	kubeconfig := s.cluster.Kubeconfig(s.cluster.Address, s.cluster.Admin())
	s.kubernetes = start("of the cluster", "--registry", "kubernetes://"+kubeconfig+"?secrets="+strings.Join(namespaces, ","))
	text, err := s.kubernetes.Run(t.Context(), "mcp-server", "secrets", "key")
	require.NoError(t, err)
	certtest.WriteFile(t, key, []byte(text))
	s.rows = start("of rows", "--secrets-key-file", key)
	return s
}

// serve gives a Service endpoints, as its Pods would be.
func (s *sides) serve(m manifest) {
	s.t.Helper()
	spec, _ := m.object["spec"].(kubetest.Object)
	slice := kubetest.Slice{Namespace: m.namespace, Name: m.name + "-1", Service: m.name, Endpoints: []kubetest.Endpoint{{Address: "10.42.0.1"}, {Address: "10.42.0.2"}}}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		port := p.(kubetest.Object)
		target, number := port["targetPort"], port["port"]
		if n, ok := target.(int); ok {
			number = n
		}
		entry := kubetest.Object{"port": number}
		for _, field := range []string{"name", "protocol", "appProtocol"} {
			if port[field] != nil {
				entry[field] = port[field]
			}
		}
		slice.Ports = append(slice.Ports, entry)
	}
	if slice.Ports != nil {
		s.cluster.ApplySlice(slice)
	}
}

// certify gives both meshes the certificates that listeners name.
func (s *sides) certify(all []manifest) {
	s.t.Helper()
	given := map[string]bool{}
	for _, m := range all {
		for _, ref := range certificatesOf(m) {
			if given[ref] || strings.Contains(ref, "nonexist") || strings.Contains(ref, "malformed") {
				continue
			}
			given[ref] = true
			namespace, name, _ := strings.Cut(ref, "/")
			pair := certtest.NewAuthority(s.t).Issue(nil)
			cert, key := pair.Write(s.t, s.t.TempDir())
			secret := kubetest.Object{
				"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": kubetest.Object{
					"name": name, "namespace": namespace, "labels": kubetest.Object{"mesh.pgmesh.io/service-account": "gateway"},
					"annotations": kubetest.Object{"mesh.pgmesh.io/service-accounts": "*"},
				},
				"data": kubetest.Object{"tls.crt": s.encoded(cert), "tls.key": s.encoded(key)},
			}
			s.cluster.Apply("/api/v1/namespaces/"+namespace+"/secrets/"+name, secret)
			secret["metadata"], secret["serviceAccounts"] = kubetest.Object{"name": name, "namespace": namespace}, []string{"*"} // as a row says who is given it
			s.apply(secret)
		}
	}
	require.NotEmpty(s.t, given)
}

func (s *sides) encoded(file string) string {
	content, err := os.ReadFile(file)
	require.NoError(s.t, err)
	return base64.StdEncoding.EncodeToString(content)
}

// certificatesOf are the Secrets that a Gateway or ListenerSet names, as NAMESPACE/NAME.
func certificatesOf(m manifest) (refs []string) {
	spec, _ := m.object["spec"].(kubetest.Object)
	listeners, _ := spec["listeners"].([]any)
	for _, l := range listeners {
		tls, _ := l.(kubetest.Object)["tls"].(kubetest.Object)
		certificates, _ := tls["certificateRefs"].([]any)
		for _, c := range certificates {
			ref := c.(kubetest.Object)
			namespace, ok := ref["namespace"].(string)
			if !ok {
				namespace = m.namespace
			}
			refs = append(refs, namespace+"/"+ref["name"].(string))
		}
	}
	return refs
}

// write applies as rows what is of the Gateway API, in one transaction, and the services of the cluster
// under the same names.
func (s *sides) write(all []manifest) {
	s.t.Helper()
	var objects []kubetest.Object
	services := 0
	for _, m := range all {
		switch {
		case m.ofAPI():
			objects = append(objects, m.object)
		case m.kind == "Service":
			services++
		}
	}
	var entries struct{ Items []kubetest.Object }
	poll.Eventually(s.t, func(ctx context.Context) error {
		text, err := s.kubernetes.ClientOutput(ctx, "get", "serviceentries", "-A", "-o", "json")
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &entries); err != nil {
			return err
		}
		if len(entries.Items) < services {
			return fmt.Errorf("the mesh has %d of %d services", len(entries.Items), services)
		}
		return nil
	})
	for _, e := range entries.Items {
		meta := e["metadata"].(map[string]any)
		e["metadata"] = map[string]any{"name": meta["name"], "namespace": meta["namespace"], "labels": meta["labels"]}
		delete(e, "status")
		objects = append(objects, e)
	}
	s.apply(objects...)
}

// apply writes rows.
func (s *sides) apply(objects ...kubetest.Object) {
	s.t.Helper()
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	for _, o := range objects {
		require.NoError(s.t, encoder.Encode(o))
	}
	require.NoError(s.t, encoder.Close())
	said, err := s.rows.Client(s.t.Context(), text.String(), "apply", "-f", "-")
	require.NoError(s.t, err, said)
}

// connect connects to both a proxy of each Gateway, and a sidecar in each namespace.
func (s *sides) connect(all []manifest) {
	s.t.Helper()
	for i, m := range all {
		switch m.kind {
		case "Gateway":
			s.proxies["the Gateway "+m.namespace+"/"+m.name] = [2]*received{follow(s.t, s.rows.XDS, m.namespace, m.name, i), follow(s.t, s.kubernetes.XDS, m.namespace, m.name, i)}
		case "Namespace":
			s.proxies["a sidecar of "+m.name] = [2]*received{follow(s.t, s.rows.XDS, m.name, "", i), follow(s.t, s.kubernetes.XDS, m.name, "", i)}
		}
	}
}

// differ says where the two meshes differ.
func (s *sides) differ(context.Context) error {
	if routes, listeners := s.count(); routes < 60 || listeners < 60 {
		return fmt.Errorf("proxies have not all yet: %d listeners and %d lists of routes", listeners, routes)
	}
	for _, name := range s.names() {
		both := s.proxies[name]
		if err := both[0].differs(both[1]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (s *sides) names() (names []string) {
	for name := range s.proxies {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// count counts what proxies of rows have.
func (s *sides) count() (routes, listeners int) {
	for _, both := range s.proxies {
		for name := range both[0].now() {
			switch typeOf(name) {
			case proxy.Routes.URL():
				routes++
			case proxy.Listeners.URL():
				listeners++
			}
		}
	}
	return routes, listeners
}
