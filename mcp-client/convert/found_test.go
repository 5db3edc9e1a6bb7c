package convert_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/convert"
)

const (
	serviceOfCluster = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}}\n"
	podOfCluster     = "{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: {app: web}}, spec: {containers: []}, status: {podIP: 10.1.0.1, phase: Running, conditions: [{type: Ready, status: 'True'}]}}\n"
	ingressOfCluster = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: shop}, spec: {defaultBackend: {service: {name: web, port: {name: http}}}}}\n"
	timeoutOfKuma    = "{type: MeshTimeout, name: a, mesh: default, spec: {targetRef: {kind: Mesh}, to: [{targetRef: {kind: Mesh}, default: {connectionTimeout: 2s}}]}}\n"
	resolverOfConsul = "Kind = \"service-resolver\"\nName = \"web\"\nConnectTimeout = \"2s\"\n"
)

func convertAs(t *testing.T, from convert.Source, files ...convert.File) string {
	t.Helper()
	o := options
	o.From = from
	r, err := convert.Files(files, nil, o)
	require.NoError(t, err)
	return written(t, r)
}

// What is certainly of a Consul or a Kuma becomes the same without the flag.
func TestFilesThatCanBeOfOneSourceAreFoundOut(t *testing.T) {
	t.Parallel()
	inputs := map[convert.Source][]convert.File{}
	for _, source := range []convert.Source{convert.Consul, convert.Kuma} {
		names, err := filepath.Glob("testdata/" + string(source) + "/*.in.*")
		require.NoError(t, err)
		for _, name := range names {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			if filepath.Base(name) != "agent.in.hcl" { // which could be of others
				inputs[source] = append(inputs[source], convert.File{Name: name, Data: data})
			}
		}
		require.Greater(t, len(inputs[source]), 2)
	}
	inputs[convert.Consul] = append(inputs[convert.Consul],
		convert.File{Name: "-", Data: []byte(resolverOfConsul)},
		convert.File{Name: "web.yaml", Data: []byte("Kind: service-resolver\nName: web\n---\nKind: mesh\nName: mesh\n")},
		convert.File{Name: "-", Data: []byte(`{"DebugConfig": {"ACLDefaultPolicy": "allow"}} [] [{"Node": {"Node": "n1", "Address": "10.0.0.1"}, "Service": {"ID": "web", "Service": "web", "Port": 80}, "Checks": []}]`)},
	)
	inputs[convert.Kuma] = append(inputs[convert.Kuma],
		convert.File{Name: "-", Data: []byte(timeoutOfKuma + "---\n{type: Zone, name: east}\n---\n")},
		convert.File{Name: "list.json", Data: []byte(`{"total": 1, "items": [{"type": "Dataplane", "mesh": "default", "name": "web", "networking": {"address": "10.0.0.1", "inbound": [{"port": 80, "tags": {"kuma.io/service": "web"}}]}}]}`)},
	)
	for source, files := range inputs {
		for _, f := range files {
			require.Equal(t, convertAs(t, source, f), convertAs(t, "", f), "%s\n%s", f.Name, f.Data)
		}
	}
}

// Services are what an Ingress needs if there is one in any file, and otherwise what is converted, with the Pods of other files.
func TestServicesAreOfAClusterUnlessTheyAreOfRoutes(t *testing.T) {
	t.Parallel()
	file := func(name, text string) convert.File { return convert.File{Name: name, Data: []byte(text)} }
	service, pod, ingress := file("service.yaml", serviceOfCluster), file("pod.yaml", podOfCluster), file("-", ingressOfCluster)
	route := file("vs.yaml", "{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: web, namespace: shop}, spec: {hosts: [web], http: [{route: [{destination: {host: web}}]}]}}\n")
	for _, files := range [][]convert.File{{service}, {service, pod}, {pod, service}, {file("-", "{apiVersion: v1, kind: List, items: ["+serviceOfCluster+"]}")}} {
		found := convertAs(t, "", files...)
		require.Contains(t, found, "web.shop.svc.cluster.local")
		require.Equal(t, convertAs(t, convert.Kubernetes, files...), found)
	}
	require.Contains(t, convertAs(t, "", service, pod), "10.1.0.1")
	require.Equal(t, convertAs(t, convert.Ingress, ingress, service), convertAs(t, "", service, ingress))
	require.Equal(t, convertAs(t, convert.Istio, route), convertAs(t, "", service, route))
	require.NotContains(t, convertAs(t, "", pod), "10.1.0.1", "nothing says what it is for")
}

// What may be of another is left to whoever knows.
func TestFilesThatMayBeOfOthersAreNotFoundOut(t *testing.T) {
	t.Parallel()
	for text, name := range map[string]string{
		"kind = \"service-resolver\"\n":                                         "no-name.hcl",
		"resource \"aws_instance\" \"web\" {\n  kind = \"service-router\"\n}\n": "main.hcl",
		"service {\n  name = \"web\"\n  port = 80\n}\n":                         "agent.hcl",
		resolverOfConsul + "Kind = \"service-rosolver\"\n":                      "two.hcl",
		"services: {web: {image: nginx}}\n":                                     "compose.yaml",
		`{"kind": "mesh", "name": "web"}`:                                       "mesh.json",
		`{"Kind": "service-resolver", "Name": "web"} {"Kind": "Widget"}`:        "mixed.json",
		"type: MeshTimeout\nname: a\nspec: {}\n":                                "no-mesh.yaml",
		"type: Widget\nname: a\nmesh: default\n":                                "widget.yaml",
		timeoutOfKuma + "---\n" + serviceOfCluster:                              "cluster.yaml",
	} {
		r, err := convert.Files([]convert.File{{Name: name, Data: []byte(text)}}, nil, options)
		if err == nil {
			require.Empty(t, r.Documents, name)
			require.Equal(t, "compose.yaml", name, "which has no documents that anything reads")
		}
	}
}
