package agreement

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// TestTheDatabaseAndDiscoveryFindTheSame makes random meshes that name things in every notation. It
// compares what mesh.problems reports as missing with what discovery does not find.
func TestTheDatabaseAndDiscoveryFindTheSame(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	require.NoError(t, err)
	defer conn.Close(t.Context())
	found := map[string]int{}
	for seed := range uint64(60) {
		w := world{rand.New(rand.NewPCG(seed, 15)), nil}
		w.fill()
		documents, err := kinds.Parse("mesh.yaml", []byte(strings.Join(w.documents, "\n---\n")))
		require.NoError(t, err, "seed %d", seed)
		var all []*kinds.Resource
		for _, d := range documents {
			all = append(all, d.Resource)
		}
		d := seenByDiscovery(all)
		for problem := range seenByDatabase(t, conn, all) {
			found[problem.code]++
			require.Truef(t, d.missing[problem] || d.unjudged[problem], "seed %d: the database says that something is not there, and discovery has it: %v\n%s", seed, problem, strings.Join(w.documents, "\n"))
			delete(d.missing, problem)
		}
		require.Emptyf(t, d.missing, "seed %d: discovery does not find what the database says nothing of\n%s", seed, strings.Join(w.documents, "\n"))
		found["found"] += d.found
	}
	for _, code := range []string{"unknown-host", "unknown-subset", "unknown-gateway", "unknown-delegate", "found"} {
		require.Greater(t, found[code], 20, "%s: the meshes say too little: %v", code, found)
	}
}

// problem is a place that names something that does not exist.
type problem struct{ code, resource, path string }

func seenByDatabase(t *testing.T, conn *pgx.Conn, all []*kinds.Resource) map[problem]bool {
	t.Helper()
	ctx := t.Context()
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	for _, r := range all {
		spec, err := r.SpecJSON()
		require.NoError(t, err)
		_, err = tx.Exec(ctx, "INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES ($1, $2, $3, $4, $5)", r.Kind.Group, r.Kind.Name, r.Namespace, r.Name, spec)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(ctx))
	rows, err := conn.Query(ctx, `SELECT code, namespace || '/' || name, path FROM mesh.problems
		WHERE kind = 'VirtualService' AND name LIKE 'rule%' AND code IN ('unknown-host', 'unknown-subset', 'unknown-gateway', 'unknown-delegate')`)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Code, Resource, Path string }])
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "DELETE FROM mesh.resources")
	require.NoError(t, err)
	out := map[problem]bool{}
	for _, p := range list {
		out[problem{p.Code, p.Resource, p.Path}] = true
	}
	return out
}

// verdicts are what discovery does not find, and how much it finds. The database does not judge
// which of several rules for a host clients obey: there it may find a subset that discovery does
// not.
type verdicts struct {
	missing, unjudged map[problem]bool
	found             int
}

func (v *verdicts) judge(p problem, there bool) {
	if there {
		v.found++
	} else {
		v.missing[p] = true
	}
}

func seenByDiscovery(all []*kinds.Resource) *verdicts {
	store := configstore.New()
	var batch kinds.Batch
	for _, r := range all {
		batch.Changes = append(batch.Changes, kinds.Change{Key: r.Key(), Resource: r})
	}
	m := mesh.Build(store.Apply(batch), nil)
	v := &verdicts{missing: map[problem]bool{}, unjudged: map[problem]bool{}}
	delegates := map[problem]bool{}
	for _, p := range m.Problems() {
		if strings.HasSuffix(p.Path, ".delegate") && strings.Contains(p.Reason, "no such delegate") {
			delegates[problem{"unknown-delegate", p.Of.FullName(), p.Path}] = true
		}
	}
	for _, r := range all {
		spec, isRule := r.Spec.Message().(*networking.VirtualService)
		if !isRule {
			continue
		}
		name := r.Key().FullName()
		for i, gateway := range spec.GetGateways() {
			if gateway != "mesh" {
				v.judge(problem{"unknown-gateway", name, fmt.Sprintf("spec.gateways[%d]", i)}, bound(m, all, r))
			}
		}
		for i, route := range spec.GetHttp() {
			if route.GetDelegate() != nil {
				p := problem{"unknown-delegate", name, fmt.Sprintf("spec.http[%d].delegate", i)}
				v.judge(p, !delegates[p])
				continue
			}
			v.destination(m, all, r, i)
		}
	}
	return v
}

// bound reports whether a Gateway exists that a rule names.
func bound(m *mesh.Mesh, all []*kinds.Resource, rule *kinds.Resource) bool {
	for _, r := range all {
		if r.Kind.Name != "Gateway" {
			continue
		}
		for _, namespace := range namespaces {
			if slices.ContainsFunc(m.VirtualServicesOf(r.Key().FullName(), namespace), func(vs *mesh.VirtualService) bool { return vs.Resource == rule }) {
				return true
			}
		}
	}
	return false
}

// destination judges where a route leads, for the clients that obey its rule. For a rule for
// everybody, those are the clients of its own namespace.
func (v *verdicts) destination(m *mesh.Mesh, all []*kinds.Resource, r *kinds.Resource, i int) {
	path := fmt.Sprintf("spec.http[%d].route[0].destination", i)
	host, subset := problem{"unknown-host", r.Key().FullName(), path + ".host"}, problem{"unknown-subset", r.Key().FullName(), path + ".subset"}
	for _, namespace := range namespaces {
		proxy := &mesh.Proxy{Type: mesh.Sidecar, Namespace: namespace, Addresses: []string{"10.0.0.1"}}
		scope := m.Scope(proxy)
		at := slices.IndexFunc(scope.Egress[0].VirtualServices, func(vs *mesh.VirtualService) bool { return vs.Resource == r })
		to := r.Spec.Message().(*networking.VirtualService).GetExportTo()
		if at < 0 || namespace != r.Namespace && (len(to) == 0 || to[0] == "*") {
			continue
		}
		routes := scope.Egress[0].VirtualServices[at].Spec.GetHttp()
		d := routes[slices.IndexFunc(routes, func(route *networking.HTTPRoute) bool { return route.GetName() == fmt.Sprint("route", i) })].GetRoute()[0].GetDestination()
		v.judge(host, scope.Service(d.GetHost()) != nil)
		if d.GetSubset() == "" {
			continue
		}
		rule := scope.DestinationRule(proxy, d.GetHost())
		there := rule != nil && slices.ContainsFunc(rule.Spec.GetSubsets(), func(s *networking.Subset) bool { return s.GetName() == d.GetSubset() })
		switch {
		case there:
			v.found++
		case scope.Service(d.GetHost()) == nil || rules(all, d.GetHost()) > 1:
			v.unjudged[subset] = true
		default:
			v.missing[subset] = true
		}
	}
}

// rules counts the rules that may be for a host.
func rules(all []*kinds.Resource, host string) (n int) {
	for _, r := range all {
		if rule, is := r.Spec.Message().(*networking.DestinationRule); is && hostname.Within(host, completed(rule.GetHost(), r.Namespace)) {
			n++
		}
	}
	return n
}
