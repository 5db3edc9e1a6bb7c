package zookeeper

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/zookeeper/tree"
)

// told is a sink that keeps what it is told.
type told struct {
	all map[string]*kinds.Resource
	bad map[string]string
}

func (s *told) Replace(all []*kinds.Resource) {
	s.all = map[string]*kinds.Resource{}
	for _, r := range all {
		s.all[r.Name] = r
	}
}

func (s *told) Apply(changes []kinds.Change) {
	for _, c := range changes {
		if s.all[c.Key.Name] = c.Resource; c.Resource == nil {
			delete(s.all, c.Key.Name)
		}
	}
}

func (s *told) Bad(name string, err error) {
	if delete(s.bad, name); err != nil {
		s.bad[name] = err.Error()
	}
}

func (s *told) Secrets(string, []registry.Secret) {}
func (*told) Holds() bool                         { return false }
func (s *told) Away(error)                        {}

// newMesh is a mesh of a registry with a URL's parameters, which was read and is empty.
func newMesh(t testing.TB, parameters string) (*mesh, *told) {
	t.Helper()
	at, err := url.Parse("zookeeper://127.0.0.1/?" + parameters)
	require.NoError(t, err)
	s, err := read(at)
	require.NoError(t, err)
	var f format = curator{s}
	if s.format == formatDubbo {
		f = dubbo{s}
	}
	sink := &told{bad: map[string]string{}}
	m := &mesh{Registry: &Registry{settings: s}, format: f, sink: sink, groups: map[string]*group{}}
	m.Whole()
	return m, sink
}

// entries are the ServiceEntries of what leaves say, by their hosts. They fit the rules of their kind.
func (s *told) entries(t testing.TB) map[string]*networking.ServiceEntry {
	t.Helper()
	out := map[string]*networking.ServiceEntry{}
	for _, r := range s.all {
		spec, err := r.SpecJSON()
		require.NoError(t, err)
		require.Empty(t, r.Kind.Check(spec, kinds.Meta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations}))
		entry := r.Spec.Message().(*networking.ServiceEntry)
		out[strings.Join(entry.GetHosts(), " ")] = entry
	}
	return out
}

func instanceOf(more string) []byte {
	if more != "" {
		more = "," + more
	}
	return []byte(`{"name":"web","id":"1","address":"10.0.0.1","port":8080` + more + `}`)
}

func curated(t testing.TB, parameters string, contents ...[]byte) (map[string]*networking.ServiceEntry, *told) {
	t.Helper()
	m, sink := newMesh(t, parameters)
	var leaves []tree.Leaf
	for i, content := range contents {
		leaves = append(leaves, tree.Leaf{Path: fmt.Sprintf("web/%d", i), Content: content})
	}
	m.Told(leaves)
	return sink.entries(t), sink
}

func TestProtocolsOfCurator(t *testing.T) {
	t.Parallel()
	uri := func(first string, variable bool) string {
		return fmt.Sprintf(`"uriSpec":{"parts":[{"value":%q,"variable":%t},{"value":"://","variable":false},{"value":"address","variable":true}]}`, first, variable)
	}
	for name, c := range map[string]struct{ parameters, more, protocol string }{
		"nothing is known":               {"", "", "TCP"},
		"the registry says":              {"protocol=http2", "", "HTTP2"},
		"the URI has a variable":         {"", uri("scheme", true), "HTTP"},
		"the URI says":                   {"", uri("grpc", false), "GRPC"},
		"the URI says what is not known": {"", uri("gopher", false), "TCP"},
		"the metadata say":               {"", `"payload":{"metadata":{"protocol":"grpc"}},` + uri("scheme", true), "GRPC"},
		"a payload of other programs":    {"", `"payload":{"protocol":"http"}`, "HTTP"},
		"a payload that is a text":       {"", `"payload":"protocol"`, "TCP"},
		"Dubbo says":                     {"", `"payload":{"metadata":{"dubbo.endpoints":"[{\"port\":20880,\"protocol\":\"dubbo\"},{\"port\":8080,\"protocol\":\"tri\"}]"}}`, "GRPC"},
		"Dubbo says its own":             {"", `"payload":{"metadata":{"dubbo.endpoints":"[{\"port\":8080,\"protocol\":\"dubbo\"}]"}}`, "TCP"},
		"Dubbo's list is none":           {"", `"payload":{"metadata":{"dubbo.endpoints":"tri"}}`, "TCP"},
		"there are two ports":            {"", `"sslPort":8443,` + uri("scheme", true), "HTTP"},
		"there is a secure port":         {"", `"port":null,"sslPort":8443,` + uri("scheme", true), "HTTPS"},
		"it is secure, and no more":      {"", `"port":null,"sslPort":8443`, "TLS"},
	} {
		entries, sink := curated(t, c.parameters, instanceOf(c.more))
		require.Empty(t, sink.bad, name)
		entry := entries["web.zookeeper"]
		require.Equal(t, c.protocol, entry.GetPorts()[0].GetProtocol(), name)
	}
	entries, _ := curated(t, "", instanceOf(uri("http", false)), instanceOf(uri("grpc", false)))
	require.Equal(t, "TCP", entries["web.zookeeper"].GetPorts()[0].GetProtocol(), "they do not agree")
}

func TestWhatAnInstanceOfCuratorSays(t *testing.T) {
	t.Parallel()
	entries, sink := curated(t, "region=eu&namespace=shop&domain=svc.example.com", instanceOf(`"enabled":true,"payload":{"metadata":{
		"version":"v2","zone":"a","weight":"7","mesh-account":"web","mesh-port":"80","instance_status":"UP","no label!":"x","n":3,"yes":true,"list":[1]}}`))
	require.Empty(t, sink.bad)
	require.Equal(t, "shop", sink.all["zookeeper.web"].Namespace)
	require.Equal(t, "/services/web", sink.all["zookeeper.web"].Annotations[kinds.OriginEntryAnnotation])
	entry := entries["web.svc.example.com"]
	require.EqualValues(t, 80, entry.GetPorts()[0].GetNumber())
	require.Len(t, entry.GetEndpoints(), 1)
	e := entry.GetEndpoints()[0]
	require.EqualValues(t, 8080, e.GetPorts()["tcp-80"])
	require.EqualValues(t, 7, e.GetWeight())
	require.Equal(t, "eu/a", e.GetLocality())
	require.Equal(t, "web", e.GetServiceAccount())
	require.Equal(t, map[string]string{
		"version": "v2", "zone": "a", "weight": "7", "mesh-account": "web", "mesh-port": "80", "instance_status": "UP", "n": "3", "yes": "true",
	}, e.GetLabels())

	for _, off := range []string{`"enabled":false`, `"payload":{"metadata":{"instance_status":"OUT_OF_SERVICE"}}`, `"payload":{"weight":0}`} {
		entries, _ = curated(t, "", instanceOf(off))
		require.Equal(t, kinds.HealthUnhealthy, entries["web.zookeeper"].GetEndpoints()[0].GetLabels()[kinds.HealthLabel], off)
	}
}

// An instance that cannot be used costs only itself, and stays as it was last.
func TestABadInstanceCostsOnlyItself(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct{ content, why string }{
		{`{"address"`, "it is no instance as Curator writes it"},
		{`[1, 2]`, "it is no instance as Curator writes it"},
		{`{"port": "many"}`, "it is no instance as Curator writes it"},
		{`{"port": 80}`, "it has no address"},
		{`{"address": "10.0.0.1"}`, "it has no port"},
		{`{"address": "10.0.0.1", "port": 70000}`, "70000 is no port"},
		{`{"address": "10.0.0.1", "port": -1}`, "-1 is no port"},
		{`{"address": "0.0.0.0", "port": 80}`, `the address "0.0.0.0" is none that others can connect to`},
		{`{"address": "fe80::1%eth0", "port": 80}`, "is none that others can connect to"},
		{`{"address": "10.0.0.300", "port": 80}`, "is none that others can connect to"},
		{`{"address": "a b", "port": 80}`, "is none that others can connect to"},
		{`{"address": "unix:///run/x", "port": 80}`, "is none that others can connect to"},
		{`{"address": "10.0.0.1", "port": 80, "payload": {"weight": "heavy"}}`, `the weight "heavy" is no number from 0 to 100000`},
		{`{"address": "10.0.0.1", "port": 80, "payload": "` + strings.Repeat("x", 64<<10) + `"}`, "it has more than 64 KiB"},
	} {
		m, sink := newMesh(t, "")
		good, other := tree.Leaf{Path: "web/1", Content: instanceOf("")}, tree.Leaf{Path: "web/2", Content: []byte(`{"address":"10.0.0.2","port":8080}`)}
		m.Told([]tree.Leaf{good, other})
		m.Told([]tree.Leaf{{Path: "web/1", Content: []byte(bad.content)}, {Path: "web/3", Content: []byte(bad.content)}})
		require.Len(t, sink.entries(t)["web.zookeeper"].GetEndpoints(), 2, bad.content)
		require.Contains(t, sink.bad["/services/web"], "1: ", bad.content)
		require.Contains(t, sink.bad["/services/web"], bad.why)
		require.Contains(t, sink.bad["/services/web"], "(and 1 more)")
		m.Told([]tree.Leaf{{Path: "web/2", Gone: true}, {Path: "web/3", Gone: true}})
		require.Len(t, sink.entries(t)["web.zookeeper"].GetEndpoints(), 1)
		m.Told([]tree.Leaf{good})
		require.Empty(t, sink.bad)
		m.Told([]tree.Leaf{{Path: "web/1", Gone: true}})
		require.Empty(t, sink.all)
		require.Empty(t, m.groups, "nothing is kept of what is gone")
	}
}

func TestAServiceThatNobodyCanAskFor(t *testing.T) {
	t.Parallel()
	m, sink := newMesh(t, "")
	m.Told([]tree.Leaf{{Path: "my service/1", Content: instanceOf("")}})
	require.Contains(t, sink.bad["/services/my service"], "is none of DNS")
	require.Empty(t, sink.all)
	m.Told([]tree.Leaf{{Path: "my service/1", Gone: true}})
	require.Empty(t, sink.bad)
}

// What is read again and is the same is no change, and a fault that stays is told once.
func TestNothingIsToldTwice(t *testing.T) {
	t.Parallel()
	m, sink := newMesh(t, "")
	leaves := []tree.Leaf{{Path: "web/1", Content: instanceOf("")}, {Path: "web/2", Content: []byte("x")}, {Path: "web", Err: errors.New("no rights")}}
	m.Told(leaves)
	require.NotEmpty(t, sink.bad)
	sink.all, sink.bad = map[string]*kinds.Resource{}, map[string]string{}
	m.Told(leaves)
	require.Empty(t, sink.all)
	require.Empty(t, sink.bad)
}

// provided are the ServiceEntries of what the providers and configurators of an interface say.
func providedBy(t *testing.T, parameters string, urls ...string) (map[string]*networking.ServiceEntry, *told) {
	t.Helper()
	m, sink := newMesh(t, "format=dubbo&"+parameters)
	leaves := make([]tree.Leaf, len(urls))
	for i, u := range urls {
		folder := providers
		if strings.HasPrefix(u, "override:") || strings.HasPrefix(u, "absent:") {
			folder = configurators
		}
		leaves[i] = tree.Leaf{Path: "org.example.Greeter/" + folder + "/" + url.QueryEscape(u)}
	}
	m.Told(leaves)
	return sink.entries(t), sink
}

func TestProvidersOfDubbo(t *testing.T) {
	t.Parallel()
	entries, sink := providedBy(
		t, "label=unit",
		"dubbo://10.0.0.1:20880/org.example.Greeter?application=shop&interface=org.example.Greeter&side=provider&weight=200&timestamp=1700000000000&unit=blue&token=secret",
		"dubbo://10.0.0.2:20880/org.example.Greeter?application=shop&disabled=true&region=eu&zone=a&version=0.0.0",
		"dubbo://10.0.0.3:20881/org.example.Greeter?version=1.0.0&group=blue",
		"tri://10.0.0.4:50051/org.example.Greeter?application=shop",
		"rest://[2001:db8::1]:8080/org.example.Greeter",
	)
	require.Empty(t, sink.bad)
	require.Len(t, entries, 4)
	plain := entries["org.example.greeter.dubbo"]
	require.Equal(t, "TCP", plain.GetPorts()[0].GetProtocol())
	require.EqualValues(t, 20880, plain.GetPorts()[0].GetNumber())
	require.Len(t, plain.GetEndpoints(), 2)
	require.EqualValues(t, 200, plain.GetEndpoints()[0].GetWeight())
	require.Equal(t, map[string]string{"application": "shop", "unit": "blue"}, plain.GetEndpoints()[0].GetLabels(), "no secrets and no times")
	require.EqualValues(t, 100, plain.GetEndpoints()[1].GetWeight())
	require.Equal(t, "eu/a", plain.GetEndpoints()[1].GetLocality())
	require.Equal(t, kinds.HealthUnhealthy, plain.GetEndpoints()[1].GetLabels()[kinds.HealthLabel])
	require.EqualValues(t, 20881, entries["org.example.greeter-blue-1-0-0.dubbo"].GetPorts()[0].GetNumber())
	require.Equal(t, "GRPC", entries["tri.org.example.greeter.dubbo"].GetPorts()[0].GetProtocol())
	require.Equal(t, "2001:db8::1", entries["rest.org.example.greeter.dubbo"].GetEndpoints()[0].GetAddress())
}

func TestConfiguratorsOfDubbo(t *testing.T) {
	t.Parallel()
	one, two := "dubbo://10.0.0.1:20880/org.example.Greeter?version=1", "dubbo://10.0.0.2:20880/org.example.Greeter?version=1&disabled=true"
	state := func(configurators ...string) (out []string) {
		entries, sink := providedBy(t, "", append([]string{one, two}, configurators...)...)
		require.Empty(t, sink.bad)
		for _, e := range entries["org.example.greeter-1.dubbo"].GetEndpoints() {
			out = append(out, fmt.Sprintf("%d %s", e.GetWeight(), e.GetLabels()[kinds.HealthLabel]))
		}
		return out
	}
	asRegistered := []string{"100 ", "100 unhealthy"}
	require.Equal(t, asRegistered, state())
	require.Equal(t, []string{"100 unhealthy", "100 unhealthy"}, state("override://10.0.0.1/org.example.Greeter?category=configurators&version=1&disabled=true"))
	require.Equal(t, []string{"100 ", "100 "}, state("override://10.0.0.2:20880/org.example.Greeter?version=*&disabled=false"))
	require.Equal(t, []string{"5 ", "5 unhealthy"}, state("override://0.0.0.0/org.example.Greeter?version=*&group=*&weight=5"))
	require.Equal(t, []string{"1 unhealthy", "100 unhealthy"}, state("override://10.0.0.1/org.example.Greeter?version=1&weight=0"))
	for _, not := range []string{
		"override://10.0.0.1:1/org.example.Greeter?version=1&disabled=true",
		"override://10.0.0.1/org.example.Greeter?version=2&disabled=true",
		"override://10.0.0.1/org.example.Greeter?version=1&group=blue&disabled=true",
		"override://0.0.0.0/org.example.Greeter?version=1&disabled=true&application=one-of-the-callers",
		"override://0.0.0.0/org.example.Greeter?version=1&disabled=true&enabled=false",
		"absent://0.0.0.0/org.example.Greeter?version=1&disabled=true",
	} {
		require.Equal(t, asRegistered, state(not), not)
	}
}

func TestABadProviderCostsOnlyItself(t *testing.T) {
	t.Parallel()
	for bad, why := range map[string]string{
		"%zz":                                    "it is no URL with an address",
		"dubbo":                                  "it is no URL with an address",
		"dubbo://10.0.0.1/":                      "it has no port",
		"dubbo://10.0.0.1:20880/?weight=-1":      "is no number from 0 to 100000",
		"dubbo://10.0.0.1:20880/?version=1_0":    "nobody can ask for its host",
		"dubbo://10.0.0.1:20880/?version=%E6%97": "nobody can ask for its host",
		"dubbo://0.0.0.0:20880/":                 "is none that others can connect to",
	} {
		entries, sink := providedBy(t, "", "dubbo://10.0.0.1:20880/org.example.Greeter", bad)
		require.Len(t, entries["org.example.greeter.dubbo"].GetEndpoints(), 1, bad)
		require.Contains(t, sink.bad["/dubbo/org.example.Greeter"], why, bad)
	}
}

// Whatever somebody registers is refused, or makes resources that fit the rules of their kind.
func FuzzCurator(f *testing.F) {
	f.Add("web", instanceOf(`"payload":{"metadata":{"weight":"3","zone":"a"}},"uriSpec":{"parts":[{"value":"scheme","variable":true}]}`))
	f.Add("web", []byte(`{"address":"a.example","sslPort":1,"payload":{"region":"x y/","mesh-account":"a/b"}}`))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		m, sink := newMesh(t, "")
		m.Told([]tree.Leaf{{Path: strings.ReplaceAll(name, "/", "") + "/1", Content: content}})
		sink.entries(t)
	})
}

// Whatever somebody registers is refused, or makes resources that fit the rules of their kind.
func FuzzDubbo(f *testing.F) {
	f.Add("org.example.Greeter", url.QueryEscape("dubbo://10.0.0.1:20880/x?version=1.0&group=a&weight=3"), url.QueryEscape("override://0.0.0.0/x?disabled=true"))
	f.Fuzz(func(t *testing.T, name, provider, configurator string) {
		m, sink := newMesh(t, "format=dubbo")
		name = strings.ReplaceAll(name, "/", "")
		m.Told([]tree.Leaf{{Path: name + "/providers/" + provider}, {Path: name + "/configurators/" + configurator}})
		sink.entries(t)
	})
}
