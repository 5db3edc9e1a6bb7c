package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

// samples are Istio's own, run as their READMEs say. What a cluster would do with their Deployments is
// done here: each has a backend of its name, and each Service the EndpointSlices that lead there. Ports
// of the machine are in use by others, so each is replaced by a free one.
type samples struct {
	*mesh

	folder string
	edge   *mesh // what asks the gateway
	ports  []string
}

func newSamples(t *testing.T, ports map[string]string) *samples {
	t.Helper()
	folder := os.Getenv("ISTIO_SAMPLES")
	if folder == "" {
		t.Skip("ISTIO_SAMPLES names no folder with the samples of Istio: make samples has it")
	}
	m := newMesh(t)
	s := &samples{mesh: m, folder: folder, edge: &mesh{Stack: m.Stack, t: t, client: m.client, namespace: m.namespace, port: newPort(t)}}
	for port, by := range ports {
		if by == "" {
			by = s.edge.port
		}
		s.ports = append(s.ports, "port: "+port+"\n", "port: "+by+"\n", "number: "+port+"\n", "number: "+by+"\n")
	}
	agent, err := m.Agent(envoytest.Binary(t), "edge."+m.namespace, "--namespace", m.namespace, "--concurrency", "1", "--drain-time", "0s", "--role", "gateway",
		"--labels", "istio="+m.namespace)
	require.NoError(t, err)
	require.NoError(t, agent.Start())
	t.Cleanup(agent.Stop)
	return s
}

// read is a file of the samples.
func (s *samples) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.folder, name))
	require.NoError(s.t, err)
	return strings.NewReplacer(append(slices.Clone(s.ports), "istio: ingressgateway", "istio: "+s.namespace)...).Replace(string(text))
}

// apply applies files, as the READMEs have kubectl do it.
func (s *samples) apply(names ...string) {
	s.t.Helper()
	for _, name := range names {
		file := filepath.Join(s.t.TempDir(), filepath.Base(name))
		require.NoError(s.t, os.WriteFile(file, []byte(s.read(name)), 0o600))
		s.mcpClient("apply", "-f", file)
	}
}

// object is what a cluster looks at of a Service or a Deployment.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Ports    []struct{ Name string }
		Selector map[string]any
		Template struct {
			Metadata struct{ Labels map[string]string }
		}
	}
}

// deploy runs the Deployments of a file, each by a backend that listens on a port, and imports its Services.
func (s *samples) deploy(name string, run func(deployment string) (port string)) {
	s.t.Helper()
	text := s.read(name)
	var services, deployments []object
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(s.t, err)
		switch o.Kind {
		case "Service":
			services = append(services, o)
		case "Deployment":
			deployments = append(deployments, o)
		}
	}
	require.NotEmpty(s.t, services)
	var cluster bytes.Buffer
	cluster.WriteString(text)
	for _, d := range deployments {
		port := run(d.Metadata.Name)
		labels := d.Spec.Template.Metadata.Labels
		written, err := json.Marshal(labels)
		require.NoError(s.t, err)
		fmt.Fprintf(&cluster, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: %s}\n", d.Metadata.Name, written)
		for _, service := range services {
			if service.Spec.Selector["app"] != labels["app"] {
				continue
			}
			var ports []string
			for _, p := range service.Spec.Ports {
				ports = append(ports, fmt.Sprintf("{name: %q, port: %s}", p.Name, port))
			}
			fmt.Fprintf(&cluster, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s-%s, labels: {kubernetes.io/service-name: %s}}\naddressType: IPv4\nports: [%s]\n"+
				"endpoints: [{addresses: [127.0.0.1], targetRef: {kind: Pod, name: %s}}]\n", service.Metadata.Name, d.Metadata.Name, service.Metadata.Name, strings.Join(ports, ", "), d.Metadata.Name)
		}
	}
	file := filepath.Join(s.t.TempDir(), "cluster.yaml")
	require.NoError(s.t, os.WriteFile(file, cluster.Bytes(), 0o600))
	s.mcpClient("import", "--from", "kubernetes", file)
}

// host is what a service of the samples is called.
func (s *samples) host(service string) string {
	return service + "." + s.namespace + ".svc.cluster.local"
}

func (s *samples) backend(deployment string) string { return newBackend(s.t, deployment, nil).port }

func TestIstiosBookinfo(t *testing.T) {
	t.Parallel()
	s := newSamples(t, map[string]string{"8080": "", "9080": newPort(t)})
	s.port = strings.TrimSuffix(strings.TrimPrefix(s.ports[slices.Index(s.ports, "port: 9080\n")+1], "port: "), "\n")
	const networking = "bookinfo/networking/"
	s.deploy("bookinfo/platform/kube/bookinfo.yaml", s.backend)
	s.apply(networking + "bookinfo-gateway.yaml")
	s.edge.listening()
	require.NoError(t, s.edge.must(request{path: "/productpage"}).from("productpage-v1"))
	require.Equal(t, http.StatusNotFound, s.edge.must(request{path: "/elsewhere"}).status)
	s.listening()
	reviews, ratings := s.host("reviews"), s.host("ratings")
	s.answeredBy(reviews, "reviews-v1", "reviews-v2", "reviews-v3")

	s.apply(networking+"destination-rule-all.yaml", networking+"virtual-service-all-v1.yaml")
	s.answeredBy(reviews, "reviews-v1")
	jason := func(host string) *answer {
		return s.must(request{host: host, header: http.Header{"End-User": {"jason"}}})
	}
	s.apply(networking + "virtual-service-reviews-test-v2.yaml")
	eventually(t, func(context.Context) error { return jason(reviews).from("reviews-v2") })
	s.answeredBy(reviews, "reviews-v1")
	s.apply(networking + "virtual-service-ratings-test-abort.yaml")
	eventually(t, func(context.Context) error {
		if status := jason(ratings).status; status != http.StatusInternalServerError {
			return fmt.Errorf("jason is answered %d", status)
		}
		return nil
	})
	s.answeredBy(ratings, "ratings-v1")
	s.apply(networking + "virtual-service-reviews-50-v3.yaml")
	s.answeredBy(reviews, "reviews-v1", "reviews-v3")
	s.apply(networking + "virtual-service-reviews-v3.yaml")
	s.answeredBy(reviews, "reviews-v3")
	s.apply(networking + "virtual-service-reviews-jason-v2-v3.yaml")
	eventually(t, func(context.Context) error { return jason(reviews).from("reviews-v2") })
	s.answeredBy(reviews, "reviews-v3")
	s.mcpClient("delete", "-f", s.folder+"/"+networking+"virtual-service-all-v1.yaml")
	s.answeredBy(reviews, "reviews-v1", "reviews-v2", "reviews-v3")
}

func TestIstiosHelloworldAndHTTPBin(t *testing.T) {
	t.Parallel()
	s := newSamples(t, map[string]string{"80": "", "5000": newPort(t), "8000": newPort(t)})
	s.deploy("helloworld/helloworld.yaml", s.backend)
	s.apply("helloworld/helloworld-gateway.yaml")
	s.edge.listening()
	counted := map[string]int{}
	for range 40 {
		a := s.edge.must(request{path: "/hello"})
		require.Equal(t, http.StatusOK, a.status)
		counted[a.seen.Backend]++
	}
	require.Len(t, counted, 2, "both versions answer")
	require.Equal(t, http.StatusNotFound, s.edge.must(request{path: "/hellos"}).status)

	s.mcpClient("delete", "-f", s.folder+"/helloworld/helloworld-gateway.yaml")
	s.deploy("httpbin/httpbin.yaml", s.backend)
	s.apply("httpbin/httpbin-gateway.yaml")
	eventually(t, func(ctx context.Context) error {
		a, err := s.edge.ask(ctx, request{path: "/status/200"})
		if err != nil {
			return err
		}
		return a.from("httpbin")
	})
}

func TestIstiosTCPEcho(t *testing.T) {
	t.Parallel()
	s := newSamples(t, map[string]string{"31400": "", "9000": newPort(t), "9001": newPort(t)})
	s.deploy("tcp-echo/tcp-echo-services.yaml", func(deployment string) string { return newGreeter(t, deployment).port })
	s.apply("tcp-echo/tcp-echo-all-v1.yaml")
	reaches(t, s.edge.port, "tcp-echo-v1")
	s.apply("tcp-echo/tcp-echo-20-v2.yaml")
	eventually(t, func(ctx context.Context) error {
		who, err := converse(ctx, address(s.edge.port))
		if err == nil && who != "tcp-echo-v2" {
			err = errors.New("the new version is not asked yet")
		}
		return err
	})
}

// Who calls has to have the token of Istio's task about JWTs.
func TestIstiosTokens(t *testing.T) {
	t.Parallel()
	s := newSamples(t, map[string]string{"80": "", "8000": newPort(t)})
	const tokens = "../security/tools/jwt/samples/"
	s.deploy("httpbin/httpbin.yaml", s.backend)
	s.apply("httpbin/httpbin-gateway.yaml")
	s.edge.listening()
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	require.NoError(t, os.WriteFile(policies, []byte(fmt.Sprintf(`apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: jwt}
spec:
  selector: {matchLabels: {istio: %[1]s}}
  jwtRules: [{issuer: testing@secure.istio.io, jwks: %[2]q}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: with-a-token}
spec:
  selector: {matchLabels: {istio: %[1]s}}
  rules: [{from: [{source: {requestPrincipals: [testing@secure.istio.io/testing@secure.istio.io]}}]}]
`, s.namespace, s.read(tokens+"jwks.json"))), 0o600))
	s.mcpClient("apply", "-f", policies)
	ask := func(token string) int {
		r := request{path: "/headers", header: http.Header{}}
		if token != "" {
			r.header.Set("Authorization", "Bearer "+token)
		}
		return s.edge.must(r).status
	}
	eventually(t, func(context.Context) error {
		if status := ask(""); status != http.StatusForbidden {
			return fmt.Errorf("without a token the answer is %d", status)
		}
		return nil
	})
	require.Equal(t, http.StatusUnauthorized, ask("not.a.token"))
	require.Equal(t, http.StatusOK, ask(strings.TrimSpace(s.read(tokens+"demo.jwt"))))
}

// What the samples have of egress, of external services and of the Gateway API is taken as it is written.
func TestIstiosSamplesAreTaken(t *testing.T) {
	t.Parallel()
	s := newSamples(t, nil)
	var files []string
	for _, pattern := range []string{"bookinfo/networking/*.yaml", "bookinfo/gateway-api/*.yaml", "external/*.yaml", "helloworld/gateway-api/*.yaml", "httpbin/gateway-api/*.yaml", "tcp-echo/gateway-api/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(s.folder, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		files = append(files, found...)
	}
	for _, file := range files {
		s.mcpClient("import", "--from", "kubernetes", file, "--dry-run") // some have Services beside
	}
}
