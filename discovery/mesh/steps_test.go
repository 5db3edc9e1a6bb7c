package mesh_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// TestAMeshBuiltInStepsEqualsOneBuiltAtOnce makes random changes, one revision after the other. It
// compares what a mesh built from the one before says with what one built from nothing says.
// Proxies ask only some of the meshes.
func TestAMeshBuiltInStepsEqualsOneBuiltAtOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			draw := draw{rand.New(rand.NewPCG(seed, 7))}
			store := configstore.New()
			var stepwise, before *mesh.Mesh
			var trust mesh.Trust
			for revision := range int64(100) {
				if stepwise != nil && draw.oneIn(4) {
					trust = draw.trust()
					stepwise = stepwise.WithTrust(trust)
				}
				batch := kinds.Batch{Revision: revision, Changes: draw.changes(t, store.Snapshot())}
				before, stepwise = stepwise, mesh.Build(store.Apply(batch), stepwise)
				if draw.oneIn(4) {
					continue
				}
				atOnce := mesh.Build(store.Snapshot().FromNothing(), nil).WithTrust(trust)
				require.Equal(t, atOnce.Problems(), stepwise.Problems())
				require.Equal(t, statedBy(atOnce), statedBy(stepwise))
				requireTold(t, before, stepwise)
				require.Equal(t, atOnce.KeyProblems(), stepwise.KeyProblems())
				require.Equal(t, atOnce.KeySources(), stepwise.KeySources())
				require.Equal(t, described(atOnce.Services()), described(stepwise.Services()))
				requireShapes(t, before, stepwise)
				for _, p := range everyProxy() {
					if draw.oneIn(3) {
						require.Equal(t, saidTo(atOnce, p), saidTo(stepwise, p), "revision %d, for %s in %s", revision, p.Type, p.Namespace)
						requireKept(t, before, stepwise, p, batch)
					}
				}
			}
		})
	}
}

// requireShapes checks that services whose shape stayed differ only in endpoints.
func requireShapes(t *testing.T, before, after *mesh.Mesh) {
	t.Helper()
	if before == nil {
		return
	}
	old := map[*mesh.Shape]*mesh.Service{}
	for _, s := range before.Services() {
		old[s.Shape] = s
	}
	for _, s := range after.Services() {
		if o := old[s.Shape]; o != nil {
			require.True(t, slices.Equal(o.Ports, s.Ports))
			require.Equal(t, shapeOf(o), shapeOf(s))
			require.True(t, s.Resolution != mesh.ResolutionNone || o == s)
		}
	}
}

// requireKept checks that what did not change is the same pointer: services whose entries did not,
// and a scope that shows the same.
func requireKept(t *testing.T, before, after *mesh.Mesh, p *mesh.Proxy, batch kinds.Batch) {
	t.Helper()
	if before == nil {
		return
	}
	if !slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool { return c.Key.Kind.Name == "RequestAuthentication" }) && before.Config == after.Config &&
		before.Class(p).Tokens == after.Class(p).Tokens {
		require.Same(t, before.TokenRules(p), after.TokenRules(p))
	}
	if !slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool {
		return c.Key.Kind.Name == "Telemetry" && strings.Contains(before.Class(p).Telemetry, c.Key.Namespace+"/"+c.Key.Name)
	}) && before.Config == after.Config && before.Class(p).Telemetry == after.Class(p).Telemetry && toldText(before.Telemetry(p)) == toldText(after.Telemetry(p)) &&
		!slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool { return c.Key.Kind.Name == "ServiceEntry" }) {
		require.Same(t, before.Telemetry(p), after.Telemetry(p))
	}
	old, now := before.Scope(before.Known(p)), after.Scope(after.Known(p))
	ofRules := func(c kinds.Change) bool { return c.Key.Kind.Name == "DestinationRule" } // rules may hide others
	if slices.Equal(shownBy(old), shownBy(now)) && before.Config == after.Config && old.Sidecar == now.Sidecar && !slices.ContainsFunc(batch.Changes, ofRules) {
		require.Same(t, old, now)
	}
	if slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool {
		return c.Key.Kind.Name == "WorkloadEntry" || c.Key.Kind.Name == "MeshConfig"
	}) {
		return // this may change any service
	}
	if !slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool { return c.Key.Kind.Group == "extensions.istio.io" }) &&
		before.Class(p).Extensions == after.Class(p).Extensions && before.Config == after.Config {
		require.True(t, slices.Equal(before.Extensions(p), after.Extensions(p)))
	}
	if before.Class(p).Policies == after.Class(p).Policies && !slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool { return c.Key.Kind.Name == "AuthorizationPolicy" }) {
		require.True(t, slices.Equal(before.AuthorizationPolicies(p), after.AuthorizationPolicies(p)))
	}
	were := byHost(before)
	for host, services := range byHost(after) {
		if slices.EqualFunc(were[host], services, func(a, b *mesh.Service) bool {
			return a.Entry == b.Entry && slices.Equal(a.Allocated, b.Allocated)
		}) {
			require.True(t, slices.Equal(were[host], services), host)
		}
	}
}

func byHost(m *mesh.Mesh) map[string][]*mesh.Service {
	out := map[string][]*mesh.Service{}
	for _, s := range m.Services() {
		out[s.Namespace+"/"+s.Hostname] = append(out[s.Namespace+"/"+s.Hostname], s)
	}
	return out
}

// saidTo describes everything that a mesh says to a proxy.
func saidTo(m *mesh.Mesh, p *mesh.Proxy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nclass %+v\nknown %+v\n", scopeText(m, p), m.Class(p), m.Known(p).Labels)
	fmt.Fprintln(&b, "trust", *m.Trust())
	for _, s := range m.SecretsFor(p) {
		fmt.Fprintln(&b, "secret", s.Namespace, s.Name)
	}
	for _, s := range m.Scope(m.Known(p)).Services {
		fmt.Fprintln(&b, "identities", m.Identities(s))
	}
	if all := m.Authorities(); all != nil {
		for _, a := range all.List {
			fmt.Fprintf(&b, "authority %s %s\n", a.Name, a.Trust.Authorities)
		}
	}
	for _, target := range m.Targets(p) {
		fmt.Fprintf(&b, "target %s %+v %d %s\n", target.Service.Hostname, *target.Port, target.Number, target.Locality)
	}
	for _, a := range m.AuthorizationPolicies(p) {
		fmt.Fprintf(&b, "policy %p %s %t\n", a.Resource, wire(a.Spec), a.DryRun)
	}
	for _, e := range m.Extensions(p) {
		fmt.Fprintf(&b, "extension %p %s %s\n", e.Resource, e.Name, e.Version)
	}
	for _, s := range m.PullSecrets(p) {
		if s != nil {
			fmt.Fprintf(&b, "pulls with %s/%s %s\n", s.Namespace, s.Name, s.Registries)
		}
	}
	for _, name := range []string{"one", "two"} {
		fmt.Fprintf(&b, "authorizer %+v\n", m.Authorizer(name))
	}
	fmt.Fprintf(&b, "telemetry %s\n", toldText(m.Telemetry(p)))
	fmt.Fprintln(&b, m.NetworkScale(), m.NetworkGateways("near"), m.NetworkGateways("far"), m.BehindGateways("near"), m.NamespaceMutualTLS(p.Namespace))
	for _, s := range m.Scope(m.Known(p)).Services {
		for _, e := range s.Endpoints {
			fmt.Fprintln(&b, "network", e.Address, m.NetworkOf(e))
		}
	}
	if tokens := m.TokenRules(p); tokens != nil {
		for _, rule := range tokens.Rules {
			fmt.Fprintln(&b, "token", rule.GetIssuer(), rule.KeySet)
		}
	}
	if p.Type == mesh.Router {
		f := m.Frontend(p)
		fmt.Fprintln(&b, f.Problems)
		for _, socket := range f.Sockets {
			fmt.Fprintln(&b, socket.Bind, socket.Port)
			for _, e := range socket.Entrances {
				fmt.Fprintln(&b, e.Server, e.Names, e.Route, e.To)
			}
		}
		for _, s := range f.Servers {
			for _, vs := range m.VirtualServicesOf(s.Gateway, p.Namespace) {
				fmt.Fprint(&b, s, s.HostsFor(vs), " ")
				ruleText(&b, vs)
			}
		}
	}
	return b.String()
}

func toldText(t *mesh.Telemetry) string {
	var b strings.Builder
	for _, role := range []mesh.Role{mesh.AsClient, mesh.AsServer} {
		told := t.As(role)
		fmt.Fprint(&b, told.LogsSaid)
		for _, l := range told.Logs {
			fmt.Fprintf(&b, " log %s %+v %s", l.Provider.Spec.GetName(), l.Provider.Collector, l.Filter)
		}
		if told.Trace != nil {
			fmt.Fprintf(&b, " trace %s %+v %t", told.Trace.Provider.Spec.GetName(), told.Trace.Provider.Collector, told.Trace.Disabled)
		}
		for _, m := range told.Metrics {
			fmt.Fprintf(&b, " metrics %s %+v", m.Provider.Spec.GetName(), m.Overrides)
		}
	}
	return b.String()
}

var namespacesDrawn = []string{"istio-system", "one", "two", "three"}

// everyProxy has a proxy for each case that the random rules tell apart.
func everyProxy() []*mesh.Proxy {
	var out []*mesh.Proxy
	for _, namespace := range namespacesDrawn {
		for i, app := range []string{"", "a", "b"} {
			p := sidecar(namespace, map[string]string{"app": app}, fmt.Sprint("10.0.0.", i))
			if p.ServiceAccount = "account"; i > 0 {
				p.PullsModules = true
			}
			out = append(out, p)
		}
		out = append(out, &mesh.Proxy{Type: mesh.Router, Addresses: []string{"10.0.0.9"}, Namespace: namespace, Labels: map[string]string{"app": "a", "gateway.networking.k8s.io/gateway-name": "r1"}})
	}
	return out
}
