package rows

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/gateway-api/conformance"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
)

// manifest is an object of the suite.
type manifest struct {
	kind, namespace, name string
	object                kubetest.Object
}

// plurals are the kinds that are applied, and how an API server has them in its paths.
var plurals = map[string]string{
	"Namespace": "namespaces", "Service": "services", "GatewayClass": "gatewayclasses", "Gateway": "gateways", "ListenerSet": "listenersets",
	"HTTPRoute": "httproutes", "GRPCRoute": "grpcroutes", "TLSRoute": "tlsroutes", "TCPRoute": "tcproutes", "UDPRoute": "udproutes",
	"ReferenceGrant": "referencegrants",
}

// leftOut are the kinds of the suite that are not held against each other, and why.
var leftOut = map[string]string{
	"Deployment":       "no Pods run here: Services are given endpoints",
	"EndpointSlice":    "likewise",
	"ConfigMap":        "rows have Secrets in its place",
	"Secret":           "each listener is given the certificate that it names",
	"BackendTLSPolicy": "those of the suite name ConfigMaps",
}

// manifests reads all that the suite applies. Of objects with one name the last counts, as it would if
// all tests were run and nothing was deleted. They are sorted by namespace and name, as the API wants
// rivals of one age to be.
func manifests(t *testing.T) []manifest {
	t.Helper()
	all := map[[3]string]manifest{}
	require.NoError(t, fs.WalkDir(conformance.Manifests, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := conformance.Manifests.ReadFile(path)
		require.NoError(t, err)
		for _, m := range documents(t, text) {
			if plurals[m.kind] == "" {
				require.Contains(t, leftOut, m.kind, path)
				continue
			}
			all[[3]string{m.namespace, m.name, m.kind}] = m
		}
		return nil
	}))
	keys := slices.SortedFunc(maps.Keys(all), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	out := make([]manifest, 0, len(keys))
	for _, k := range keys {
		out = append(out, all[k])
	}
	return out
}

// blanks fills in what the suite leaves to whom it examines.
var blanks = strings.NewReplacer(
	"{GATEWAY_CLASS_NAME}", gatewayapi.Class, "{GATEWAY_CONTROLLER_NAME}", gatewayapi.Controller,
	"PLACEHOLDER_USABLE_ADDRS", "10.99.250.250", "PLACEHOLDER_UNUSABLE_ADDRS", "10.99.250.251",
)

func documents(t *testing.T, text []byte) (all []manifest) {
	t.Helper()
	text = []byte(blanks.Replace(string(text)))
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o kubetest.Object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if o == nil {
			continue
		}
		meta := o["metadata"].(kubetest.Object)
		namespace, _ := meta["namespace"].(string)
		m := manifest{o["kind"].(string), namespace, meta["name"].(string), o}
		if m.kind == "Gateway" || m.kind == "ListenerSet" {
			byName(o)
		}
		all = append(all, m)
	}
}

// byName has listeners and ListenerSets choose namespaces by their names. Rows know no other labels of
// a namespace.
func byName(o kubetest.Object) {
	for key, value := range o {
		switch v := value.(type) {
		case kubetest.Object:
			if key == "selector" {
				o[key] = kubetest.Object{"matchLabels": kubetest.Object{"kubernetes.io/metadata.name": "gateway-conformance-web-backend"}}
				continue
			}
			byName(v)
		case []any:
			for _, item := range v {
				if inner, ok := item.(kubetest.Object); ok {
					byName(inner)
				}
			}
		}
	}
}

// path is where the API server has it.
func (m manifest) path() string {
	prefix := "/api/v1"
	if version := m.object["apiVersion"].(string); version != "v1" {
		prefix = "/apis/" + version
	}
	if m.namespace != "" {
		prefix += "/namespaces/" + m.namespace
	}
	return prefix + "/" + plurals[m.kind] + "/" + m.name
}

// ofAPI reports whether it is of the Gateway API.
func (m manifest) ofAPI() bool {
	return strings.HasPrefix(m.object["apiVersion"].(string), "gateway.networking")
}
