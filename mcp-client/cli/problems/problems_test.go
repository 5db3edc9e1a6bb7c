package problems_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/store/rollout"
)

const (
	unknownHost = `VirtualService default/a: spec.http[0].route[0].destination.host: no ServiceEntry that namespace "default" can see has the host "gone.example.com" (create a ServiceEntry with this host)`
	goneEntry   = `{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: gone}, spec: {hosts: [gone.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}}`
)

func TestChangesWarnOfDanglingReferences(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)

	dry := m.Pipe(clitest.VirtualService("default", "a", "gone.example.com"), "apply", "-f", "-", "--dry-run")
	require.Equal(t, "warning: "+unknownHost+"\n", dry.Err)
	require.Zero(t, dry.Code)
	require.Equal(t, dry.Err, m.Pipe(clitest.VirtualService("default", "a", "gone.example.com"), "apply", "-f", "-").Err)
	require.Empty(t, m.Pipe(goneEntry, "apply", "-f", "-").Err)
	require.Equal(t, dry.Err, m.Run("delete", "serviceentry", "gone").Err)
}

func TestStrictNamespaceRefuses(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Execute(`INSERT INTO mesh.settings (name, value, namespace) VALUES ('strict_references', 'on', 'default')`)

	for _, more := range [][]string{{}, {"--dry-run"}} {
		r := m.Pipe(clitest.VirtualService("default", "a", "gone.example.com"), append([]string{"apply", "-f", "-"}, more...)...)
		require.Equal(t, 3, r.Code, r.Err)
		require.Contains(t, r.Err, unknownHost+"\nerror: nothing was changed, because of the mistake above\n")
	}
	m.Apply(goneEntry + "\n---\n" + clitest.VirtualService("default", "a", "gone.example.com"))
	r := m.Run("delete", "serviceentry", "gone")
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, unknownHost)
	require.Equal(t, 2, m.Stored())
}

func TestProblems(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	require.Equal(t, clitest.Result{Err: "no problem found in any namespace\n"}, m.Run("problems", "-A"))
	m.Apply(clitest.VirtualService("default", "a", "gone.example.com"))

	r := m.Run("problems")
	require.Equal(t, 1, r.Code)
	require.Regexp(t, `error +unknown-host +VirtualService default/a +spec.http\[0\].route\[0\].destination.host +no ServiceEntry`, r.Out)
	require.Zero(t, m.Run("problems", "-n", "other").Code)
	for _, format := range []string{"json", "yaml"} {
		var list []map[string]string
		require.NoError(t, yaml.Unmarshal([]byte(m.Run("problems", "-A", "-o", format).Out), &list)) // JSON is YAML
		require.Len(t, list, 1)
		require.Equal(t, "unknown-host", list[0]["code"])
	}
}

// What Envoys refuse does not work as it is written, so it is a problem of the resource it was made from.
func TestProblemsTellWhatProxiesRefuse(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	send := m.ReportRefusal()
	refused := func(args ...string) (found []map[string]string) {
		t.Helper()
		r := m.Run(append([]string{"problems", "-o", "json"}, args...)...)
		require.Equal(t, 1, r.Code, r.Err)
		var all []map[string]string
		require.NoError(t, yaml.Unmarshal([]byte(r.Out), &all))
		for _, one := range all {
			if one["code"] == "refused" {
				delete(one, "group")
				found = append(found, one)
			}
		}
		return found
	}
	web := map[string]string{
		"severity": "error", "code": "refused", "kind": "VirtualService", "namespace": "shop", "name": "web", "path": "spec.http[0]",
		"message": "shop/pay.shop refuses the RouteConfiguration 80: no such thing",
		"hint":    "correct it, or take back revision 2, which changed it last: mcp-client revert 2; mcp-client proxy-status -n shop has all that is refused",
	}
	require.Equal(t, []map[string]string{web}, refused("-A"))
	require.Equal(t, []map[string]string{web}, refused("-n", "shop"))
	require.Zero(t, m.Run("problems", "-n", "bank").Code)
	require.Contains(t, m.Run("analyze", "-n", "shop").Err, "what to do about them: -o wide")
	require.Contains(t, m.Run("analyze", "-n", "shop", "-o", "wide").Out, "(correct it, or take back revision 2")

	gate := clitest.ProxyOf(3, "bank", "gate", "router")
	gate.State, gate.Refused = rollout.Refused, 2
	of := func(name string, sources ...rollout.Source) rollout.Refusal {
		return rollout.Refusal{TypeURL: "type.googleapis.com/envoy.config.listener.v3.Listener", Resource: name, Reason: "in use", Since: time.Now(), Sources: sources}
	}
	gate.Refusals = []rollout.Refusal{of("0.0.0.0_80"), of("0.0.0.0_81", rollout.Source{
		Resource: rollout.Resource{Group: "networking.istio.io", Kind: "VirtualService", Namespace: "shop", Name: "web"}, Path: "spec.http[0]",
	})}
	send(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{gate}})
	all := refused("-A")
	require.Len(t, all, 2)
	require.Equal(t, "Proxy bank/gate.bank: refuses the Listener 0.0.0.0_80: in use",
		all[0]["kind"]+" "+all[0]["namespace"]+"/"+all[0]["name"]+": "+all[0]["message"])
	require.Contains(t, all[0]["hint"], "look for what this Envoy lacks")
	require.Contains(t, all[1]["message"], ", and so 1 other proxy does")
	require.Equal(t, all[:1], refused("-n", "bank"))
}
