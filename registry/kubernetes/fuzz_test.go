package kubernetes

import (
	"encoding/json"
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
	f.Fuzz(func(t *testing.T, text string) {
		var o configObject
		if json.Unmarshal([]byte(text), &o) != nil {
			return
		}
		for _, name := range []string{"VirtualService", "AuthorizationPolicy", "HTTPRoute"} {
			for _, kind := range kinds.All() {
				if kind.Name != name {
					continue
				}
				if r, err := o.resource(kind); err == nil && (r.Spec.Message() == nil || r.Annotations[lastApplied] != "") {
					t.Fatalf("%s is made of %q", r.Key(), text)
				}
			}
		}
	})
}
