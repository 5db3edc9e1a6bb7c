package convert_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/convert"
)

// What nobody understands of a permission might refuse, so it does, and it is told.
func TestWhatIsNotUnderstoodRefuses(t *testing.T) {
	t.Parallel()
	const (
		open   = `{"acl": {"default_policy": "allow"}} {"Kind": "service-defaults", "Name": "web", "Protocol": "http"}`
		anyone = "{type: MeshTrafficPermission, mesh: default, name: a, spec: {targetRef: {kind: Mesh}, from: [{targetRef: {kind: Mesh}, default: {action: Allow}}]}}\n---\n" +
			"{type: Dataplane, mesh: default, name: web-1, networking: {address: 10.0.0.1, inbound: [{port: 80, tags: {kuma.io/service: web}}]}}\n"
		kuma = anyone + "---\n{type: MeshTrafficPermission, mesh: default, name: b, spec: "
	)
	cases := []struct {
		name, text string
		from       convert.Source
		allowed    bool
	}{
		{"Consul allows what is not mentioned", open, convert.Consul, true},
		{"an agent says it of itself", `{"Config": {"Datacenter": "dc1"}, "DebugConfig": {"DefaultIntentionPolicy": "", "ACLResolverSettings": {"ACLDefaultPolicy": "allow"}}} {"Kind": "service-intentions", "Name": "web", "Sources": [{"Name": "spy", "Action": "deny"}]}`, convert.Consul, true},
		{"nobody says it", `{"Kind": "service-intentions", "Name": "web", "Sources": [{"Name": "spy", "Action": "deny"}]}`, convert.Consul, false},
		{"the sources are no list", open + `{"Kind": "service-intentions", "Name": "web", "Sources": "nobody"}`, convert.Consul, false},
		{"a source has a new field", open + `{"Kind": "service-intentions", "Name": "web", "Sources": [{"Name": "shop", "Action": "allow", "OnWeekdays": true}]}`, convert.Consul, false},
		{"a permission has a new field", open + `{"Kind": "service-intentions", "Name": "web", "Sources": [{"Name": "shop", "Permissions": [{"Action": "deny", "HTTP": {"PathPrefix": "/", "Body": "x"}}]}]}`, convert.Consul, false},
		{"all sources of a namespace that has many", open + `{"Kind": "service-intentions", "Name": "web", "Sources": [{"Name": "shop", "Namespace": "*", "Action": "deny"}, {"Name": "shop", "Action": "allow"}]}`, convert.Consul, true},
		{"Kuma allows all", anyone, convert.Kuma, true},
		{"from is no list", kuma + "{targetRef: {kind: MeshService, name: web}, from: nobody}}", convert.Kuma, false},
		{"a denial is for what nobody knows", kuma + "{targetRef: {kind: MeshMoon}, from: [{targetRef: {kind: Mesh}, default: {action: Deny}}]}}", convert.Kuma, false},
		{"a denial is about whom nobody knows", kuma + "{targetRef: {kind: MeshService, name: web}, from: [{targetRef: {kind: MeshMoon}, default: {action: Deny}}]}}", convert.Kuma, false},
		{"a denial is about an identity in parts", kuma + "{targetRef: {kind: MeshService, name: web}, rules: [{default: {deny: [{spiffeID: {type: Prefix, value: 'spiffe://default/sh'}}]}}]}}", convert.Kuma, false},
		{"rules have a new field", kuma + "{targetRef: {kind: MeshService, name: web}, rules: [{default: {denyOnWeekdays: true}}]}}", convert.Kuma, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := convert.Files([]convert.File{{Name: "a", Data: []byte(c.text)}}, nil, convert.Options{From: c.from, Namespace: "shop"})
			require.NoError(t, err)
			q := asked{
				principal: "cluster.local/ns/shop/sa/shop", labels: map[string]string{"app": "web", "kuma.io/service": "web"},
				request: request{path: "/", method: "GET"},
			}
			require.Equal(t, c.allowed, allowed(r.Documents, q), written(t, r))
			if !c.allowed {
				require.NotEmpty(t, r.Lost)
			}
		})
	}
}
