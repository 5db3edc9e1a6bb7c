package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pgmesh/pgmesh/kinds"
)

// Whatever objects say, what is made of them is resources under the names of their registry, or an
// error.
func FuzzServices(f *testing.F) {
	f.Add(
		`{"metadata":{"namespace":"shop","name":"web","annotations":{"networking.istio.io/exportTo":"a,b"}},"spec":{"clusterIP":"None","ipFamilies":["IPv4"],"ports":[{"name":"http","port":80,"targetPort":"http"}]}}`,
		`{"metadata":{"namespace":"shop","name":"web-1","labels":{"kubernetes.io/service-name":"web"}},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],"hostname":"web-0","nodeName":"one","targetRef":{"kind":"Pod","name":"web-0"}}],"ports":[{"name":"http","port":8080}]}`,
		`{"metadata":{"namespace":"shop","name":"web-0","labels":{"security.istio.io/tlsMode":"istio"}},"spec":{"serviceAccountName":"web"}}`,
		`{"metadata":{"name":"one","labels":{"topology.kubernetes.io/region":"eu","topology.kubernetes.io/zone":"a"}}}`)
	f.Add(`{"metadata":{"namespace":"istio-system","name":"web","labels":{"topology.istio.io/network":"a"},"annotations":{"traffic.istio.io/nodeSelector":"{}"}},"spec":{"type":"NodePort","externalIPs":["192.0.2.1"],"selector":{"app":"web"},"ports":[{"name":"tls","port":15443,"nodePort":31443}]}}`, `{}`, `{}`, `{"metadata":{"name":"one"},"status":{"addresses":[{"type":"ExternalIP","address":"192.0.2.2"}]}}`)
	f.Add(`{"metadata":{"namespace":"shop","name":"web"},"spec":{"type":"ExternalName","externalName":"a","ports":[{"port":70000}]}}`, `{"endpoints":[{}]}`, `{}`, `{"metadata":{"labels":null}}`)
	f.Fuzz(func(t *testing.T, service, slice, pod, node string) {
		c := newContent(&settings{name: "kubernetes", domain: defaultDomain, pods: true, nodes: true, trustDomain: "example.com"})
		var s serviceObject
		var e sliceObject
		var p podObject
		var n nodeObject
		for text, into := range map[string]any{service: &s, slice: &e, pod: &p, node: &n} {
			if json.Unmarshal([]byte(text), into) != nil {
				return
			}
		}
		c.setService(s.key(), leanService(&s))
		c.setSlice(e.key(), leanSlice(&e))
		c.setPod(p.key(), leanPod(&p))
		c.setNode(n.key(), leanNode(&n))
		all, err := c.resources(s.key())
		for _, r := range all {
			if err != nil || len(r.Name) <= len("kubernetes.") || r.Name[:len("kubernetes.")] != "kubernetes." {
				t.Fatalf("%s is made, and the error is %v", r.Key(), err)
			}
		}
	})
}

// Whatever a resource says, it is decoded, or an error.
func FuzzConfig(f *testing.F) {
	f.Add(`{"metadata":{"namespace":"shop","name":"web","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"hosts":["web"],"http":[{"timeout":"1m"}]}}`)
	f.Add(`{"metadata":{"name":"web","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x"}},"spec":null}`)
	f.Add(`{"metadata":{"name":"web","annotations":{"pgmesh.io/origin-endpoints":"[]"}},"spec":{"selector":{"matchLabels":{"app":"web"}},"targetPorts":[{"number":80}],"endpointPickerRef":{"name":"a","port":{"number":1}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var o configObject
		if json.Unmarshal([]byte(text), &o) != nil {
			return
		}
		for _, name := range []string{"VirtualService", "AuthorizationPolicy", "HTTPRoute", "InferencePool"} {
			for _, kind := range kinds.All() {
				if kind.Name != name {
					continue
				}
				r, err := o.resource(kind)
				if err != nil {
					continue
				}
				if r.Spec.Message() == nil || r.Annotations[lastApplied] != "" || r.Annotations[kinds.OriginEndpointsAnnotation] != "" {
					t.Fatalf("%s is made of %q", r.Key(), text)
				}
				choosing{}.set(r)
			}
		}
	})
}

// Whatever comes as protobuf, it is an object that is made of it, or an error.
func FuzzProtobuf(f *testing.F) {
	for _, seed := range []string{
		"\x0a\x05\x0a\x03web\x12\x0c\x0a\x0a\x0a\x04http\x18\x50\x22\x00\x1a\x08\x0a\x06\x0a\x04\x0a\x02a.",
		"\x0a\x18\x5a\x16\x0a\x0fsidecar\x12\x03a b\x12\x04\x0a\x02\x08\x01\x1a\x02\x18\x50\x22\x04IPv4",
		"\x0a\x06\x4a\x04\x08\x80\x94\x01\x12\x05\x52\x03one\x1a\x09\x12\x07\x0a\x05Ready",
		"\x0a\x03\x08\x01\x02", "\x1a\xff\xff\xff\xff\x0f", "\x0b\x0c", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		c := newContent(&settings{name: "kubernetes", domain: defaultDomain, pods: true, nodes: true})
		var s serviceObject
		var e sliceObject
		var p podObject
		var n nodeObject
		if s.ReadProtobuf(message) == nil {
			c.setService(s.key(), leanService(&s))
		}
		if e.ReadProtobuf(message) == nil {
			c.setSlice(e.key(), leanSlice(&e))
		}
		if p.ReadProtobuf(message) == nil {
			c.setPod(p.key(), leanPod(&p))
		}
		if n.ReadProtobuf(message) == nil {
			c.setNode(n.key(), leanNode(&n))
		}
		if len(e.Endpoints)+len(e.Ports)+len(s.Spec.Ports) > len(message) {
			t.Fatal("there are more endpoints and ports than bytes")
		}
		all, err := c.resources(s.key())
		for _, r := range all {
			if err != nil || !strings.HasPrefix(r.Name, "kubernetes.") {
				t.Fatalf("%s is made, and the error is %v", r.Key(), err)
			}
		}
	})
}
