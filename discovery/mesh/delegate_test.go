package mesh_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

const delegating = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: root, namespace: default}
spec:
  hosts: [x.example.com]
  http: [{match: [ROOT], delegate: {name: part}}]
`

func delegate(match string) string {
	return `---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: part, namespace: default}
spec: {http: [{match: [` + match + `], route: [{destination: {host: x.example.com}}]}]}
`
}

// onlyRule is the one VirtualService that sidecars of namespace default obey.
func onlyRule(t *testing.T, m *mesh.Mesh) *networking.VirtualService {
	t.Helper()
	rules := m.Scope(sidecar("default", nil)).Egress[0].VirtualServices
	require.Len(t, rules, 1)
	return rules[0].Spec
}

func TestADelegateMayOnlyNarrow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		root, delegate string
		narrows        bool
	}{
		{"{uri: {prefix: /a}}", "{uri: {prefix: /a/b}}", true},
		{"{uri: {prefix: /a}}", "{uri: {exact: /a}}", true},
		{"{uri: {prefix: /a}}", "{headers: {h: {exact: '1'}}}", true},
		{"{uri: {exact: /a}}", "{uri: {exact: /a}}", true},
		{"{uri: {prefix: /a/b}}", "{uri: {prefix: /a}}", false},
		{"{uri: {prefix: /a}}", "{uri: {exact: /b}}", false},
		{"{uri: {exact: /a}}", "{uri: {prefix: /a}}", false},
		{"{uri: {exact: /a}}", "{uri: {exact: /b}}", false},
		{"{uri: {regex: '/a.*'}}", "{uri: {exact: /a}}", false},
		{"{uri: {prefix: /a}}", "{uri: {regex: '/a.*'}}", false},
		{"{headers: {h: {exact: '1'}}}", "{headers: {h: {exact: '2'}}}", false},
		{"{headers: {h: {exact: '1'}}}", "{headers: {other: {exact: '2'}}}", true},
		{"{headers: {h: {}}}", "{headers: {h: {exact: '2'}}}", false},
		{"{withoutHeaders: {h: {exact: '1'}}}", "{withoutHeaders: {h: {exact: '2'}}}", false},
		{"{queryParams: {q: {exact: '1'}}}", "{queryParams: {q: {exact: '2'}}}", false},
		{"{method: {exact: GET}}", "{method: {exact: POST}}", false},
		{"{uri: {exact: /a}, ignoreUriCase: true}", "{uri: {exact: /a}}", false},
		{"{port: 80}", "{port: 81}", false},
		{"{port: 80}", "{uri: {prefix: /a}}", true},
		{"{sourceNamespace: a}", "{uri: {prefix: /a}}", false},
		{"{sourceNamespace: a}", "{sourceNamespace: a}", true},
		{"{sourceLabels: {app: a}}", "{sourceLabels: {app: b}}", false},
		{"{sourceLabels: {app: a}}", "{sourceLabels: {version: b}}", true},
		{"{gateways: [mesh]}", "{gateways: [mesh, other]}", false},
		{"{gateways: [mesh, default/other]}", "{gateways: [other]}", true},
	} {
		m := mesh.Build(apply(t, configstore.New(), replace(delegating, "ROOT", c.root)+delegate(c.delegate)), nil)
		if c.narrows {
			require.Len(t, onlyRule(t, m).GetHttp(), 1, "%s under %s", c.delegate, c.root)
			require.Empty(t, m.Problems())
			continue
		}
		require.Empty(t, onlyRule(t, m).GetHttp(), "%s under %s", c.delegate, c.root)
		require.Len(t, m.Problems(), 1, "%s under %s", c.delegate, c.root)
		require.Equal(t, "spec.http[0].delegate", m.Problems()[0].Path)
		require.Equal(t, "VirtualService default/root", m.Problems()[0].Of.String())
	}
}

func TestMatchesOfRootAndDelegateBothApply(t *testing.T) {
	t.Parallel()
	root := replace(delegating, "ROOT", "{name: r, uri: {prefix: /a}, sourceLabels: {app: a}, port: 80}, {name: s, method: {exact: GET}}")
	matches := onlyRule(t, build(t, root+delegate("{name: d, headers: {h: {exact: '1'}}}"))).GetHttp()[0].GetMatch()
	require.Len(t, matches, 2)
	require.Equal(t, "r-d", matches[0].GetName())
	require.Equal(t, "/a", matches[0].GetUri().GetPrefix())
	require.Equal(t, "1", matches[0].GetHeaders()["h"].GetExact())
	require.Equal(t, "a", matches[0].GetSourceLabels()["app"])
	require.Equal(t, uint32(80), matches[0].GetPort())
	require.Equal(t, "s-d", matches[1].GetName())
	require.Equal(t, "GET", matches[1].GetMethod().GetExact())
}

func TestARootFollowsItsDelegate(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	root := replace(delegating, "ROOT", "{uri: {prefix: /a}}")
	without := mesh.Build(apply(t, store, root), nil)
	require.Empty(t, onlyRule(t, without).GetHttp())
	require.Contains(t, without.Problems()[0].Reason, "no such delegate")

	with := mesh.Build(apply(t, store, delegate("{uri: {prefix: /a/b}}")), without)
	require.Len(t, onlyRule(t, with).GetHttp(), 1)
	require.Empty(t, with.Problems())
	require.Empty(t, onlyRule(t, without).GetHttp(), "the mesh before stays as it was")

	changed := mesh.Build(apply(t, store, delegate("{uri: {prefix: /a/c}}")), with)
	require.Equal(t, "/a/c", onlyRule(t, changed).GetHttp()[0].GetMatch()[0].GetUri().GetPrefix())

	unrelated := mesh.Build(apply(t, store, rule("r", "default", "host: x.example.com")), changed)
	require.Same(t, onlyRule(t, changed), onlyRule(t, unrelated))
}

func TestDelegatesAreFoundByNamespaceAndVisibility(t *testing.T) {
	t.Parallel()
	part := func(namespace, exportTo string) string {
		return `---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: part, namespace: ` + namespace + `}
spec: {exportTo: [` + exportTo + `], http: [{route: [{destination: {host: short}}]}]}
`
	}
	root := replace(replace(delegating, "match: [ROOT], ", ""), "name: part", "name: part, namespace: other")
	for _, c := range []struct {
		part string
		seen bool
	}{
		{part("other", "'*'"), true},
		{part("other", "default"), true},
		{part("other", "'.'"), false},
		{part("other", "third"), false},
		{part("default", "'*'"), false},
	} {
		routes := onlyRule(t, build(t, root+c.part)).GetHttp()
		if !c.seen {
			require.Empty(t, routes, c.part)
			continue
		}
		require.Len(t, routes, 1, c.part)
		require.Equal(t, "short.other.svc.cluster.local", routes[0].GetRoute()[0].GetDestination().GetHost(), "short names are the delegate's")
	}
}

// The root's value counts for what the delegate's route leaves out, field by field, so that no
// field that Istio adds is forgotten. The fields excepted belong to one of the two routes alone, or
// must be alike in both.
func TestADelegateInheritsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	route := func(r *networking.HTTPRoute) proto.Message { return r }
	match := func(r *networking.HTTPRoute) proto.Message { return r.GetMatch()[0] }
	for _, part := range []struct {
		of     func(*networking.HTTPRoute) proto.Message
		others []string
	}{
		{route, []string{"name", "match", "route", "redirect", "delegate"}}, {match, []string{"ignore_uri_case", "source_namespace"}},
	} {
		fields := part.of(&networking.HTTPRoute{Match: []*networking.HTTPMatchRequest{{}}}).ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if slices.Contains(part.others, string(f.Name())) {
				continue
			}
			root := &networking.HTTPRoute{Delegate: &networking.Delegate{Name: "part"}, Match: []*networking.HTTPMatchRequest{{}}}
			fill(part.of(root).ProtoReflect(), f)
			delegate := &networking.HTTPRoute{Match: []*networking.HTTPMatchRequest{{}}}
			m := mesh.Build(configstore.New().Apply(kinds.Batch{Revision: 1, Changes: []kinds.Change{
				put(virtualService(t, "root", &networking.VirtualService{Hosts: []string{"x.example.com"}, Http: []*networking.HTTPRoute{root}})),
				put(virtualService(t, "part", &networking.VirtualService{Http: []*networking.HTTPRoute{delegate}})),
			}}), nil)
			merged := onlyRule(t, m).GetHttp()
			require.Len(t, merged, 1, "%s: %v", f.FullName(), m.Problems())
			require.True(t, part.of(merged[0]).ProtoReflect().Has(f), "a delegate loses %s: inherit it in delegate.go", f.FullName())
		}
	}
}

// fill gives a field a value that is not its default.
func fill(m protoreflect.Message, f protoreflect.FieldDescriptor) {
	switch {
	case f.IsMap():
		m.Mutable(f).Map().Set(protoreflect.ValueOfString("a").MapKey(), m.Mutable(f).Map().NewValue())
	case f.IsList():
		m.Mutable(f).List().Append(m.Mutable(f).List().NewElement())
	case f.Message() != nil:
		m.Mutable(f)
	case f.Kind() == protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString("a"))
	default:
		m.Set(f, protoreflect.ValueOfUint32(1))
	}
}

func virtualService(t *testing.T, name string, spec *networking.VirtualService) *kinds.Resource {
	t.Helper()
	kind, ok := kinds.Lookup("networking.istio.io", "VirtualService")
	require.True(t, ok)
	return &kinds.Resource{Kind: kind, Namespace: "default", Name: name, Spec: kinds.SpecOf(spec)}
}
