package convert_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/convert"
)

// instance is a Dataplane of a test.
type instance struct {
	service string
	tags    map[string]string
}

// selector is a targetRef of Kuma.
type selector struct {
	kind string
	tags map[string]string
}

func (s selector) String() string {
	switch s.kind {
	case "MeshService":
		return "{kind: MeshService, name: " + s.tags["kuma.io/service"] + "}"
	case "MeshSubset":
		return "{kind: MeshSubset, tags: {version: " + s.tags["version"] + "}}"
	}
	return "{kind: Mesh}"
}

func (s selector) is(i instance) bool { return within(s.tags, i.tags) }

func drawSelector(r *rand.Rand, services ...string) selector {
	switch among(r, 0, 1, 2) {
	case 0:
		return selector{"MeshService", map[string]string{"kuma.io/service": among(r, services...)}}
	case 1:
		return selector{"MeshSubset", map[string]string{"version": among(r, "v1", "v2")}}
	}
	return selector{"Mesh", nil}
}

// admission is one entry of a MeshTrafficPermission.
type admission struct {
	to, from selector
	action   string
}

// admits is what Kuma decides: of those for the most exact proxies, the last that is about the client; if there is none,
// of the next. Nobody is let in of whom nothing says so.
func admits(all []admission, from, to instance) bool {
	decided := false
	for _, kind := range []string{"Mesh", "MeshSubset", "MeshService"} {
		for _, a := range all {
			if a.to.kind == kind && a.to.is(to) && a.from.is(from) {
				decided = a.action != "Deny"
			}
		}
	}
	return decided
}

// Whatever permissions say, the policies that they become let in nobody whom Kuma refuses. Where they are about services,
// they let in all whom it lets in.
func TestPermissionsMeanWhatTheyMeant(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	services := []string{"web", "db", "job"}
	same := 0
	for range 200 {
		var file strings.Builder
		file.WriteString("type: Mesh\nname: default\nmtls: {enabledBackend: ca, backends: [{name: ca, type: builtin}]}\n")
		var instances []instance
		for i := range 5 {
			one := instance{among(r, services...), map[string]string{"version": among(r, "v1", "v2")}}
			one.tags["kuma.io/service"] = one.service
			instances = append(instances, one)
			fmt.Fprintf(&file, "---\ntype: Dataplane\nmesh: default\nname: d-%d\nnetworking: {address: 10.0.0.%d, inbound: [{port: 80, tags: {kuma.io/service: %s, version: %s}}]}\n", i, i, one.service, one.tags["version"])
		}
		var all []admission
		for i := range 1 + r.IntN(3) {
			to := drawSelector(r, services...)
			fmt.Fprintf(&file, "---\ntype: MeshTrafficPermission\nmesh: default\nname: %c\nspec:\n  targetRef: %v\n  from:\n", 'z'-i, to)
			for range 1 + r.IntN(3) {
				a := admission{to, drawSelector(r, services...), among(r, "Allow", "Deny", "AllowWithShadowDeny")}
				fmt.Fprintf(&file, "  - {targetRef: %v, default: {action: %s}}\n", a.from, a.action)
				all = append(all, a)
			}
		}
		became, err := convert.Files([]convert.File{{Name: "kuma.yaml", Data: []byte(file.String())}}, nil, convert.Options{From: convert.Kuma, Namespace: "shop"})
		require.NoError(t, err)
		exact := !slices.ContainsFunc(all, func(a admission) bool { return a.to.kind == "MeshSubset" || a.from.kind == "MeshSubset" })
		for _, to := range instances {
			for _, from := range instances {
				want := admits(all, from, to)
				got := allowed(became.Documents, asked{principal: "cluster.local/ns/shop/sa/" + from.service, labels: maps.Clone(to.tags)})
				require.False(t, got && !want, "%v asks %v\n%s\n%s", from, to, file.String(), written(t, became))
				if exact {
					require.Equal(t, want, got, "%v asks %v\n%s\n%s", from, to, file.String(), written(t, became))
					same++
				}
			}
		}
	}
	require.Positive(t, same)
}
