package gatewayapi_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/kinds"
)

// poolOf is the pool of a spec, beside the ServiceEntry "picker". Its registry says which Pods it has.
func poolOf(t *testing.T, spec string, pods ...*networking.WorkloadEntry) *gatewayapi.Pool {
	t.Helper()
	r := parsed(t, "apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: llama, labels: {a: b}}\nspec: {"+spec+"}\n")["InferencePool llama"]
	r.Annotations = map[string]string{kinds.OriginEntryAnnotation: "inferencepools/edge/llama"}
	if len(pods) > 0 {
		r.Annotations[kinds.OriginEndpointsAnnotation] = kinds.WrittenEndpoints(pods)
	}
	return gatewayapi.ReadPool(r, func(k kinds.Key) []string {
		if k.String() == "ServiceEntry edge/picker" {
			return []string{"picker.example.com", "more.example.com"}
		}
		return nil
	})
}

// models is the spec of a pool with two ports, and more.
func models(more string) string {
	return "selector: {matchLabels: {model: llama, size: small}}, targetPorts: [{number: 8001}, {number: 8000}], " + more
}

const byService = "endpointPickerRef: {name: picker, port: {number: 9002}}"

func TestAPoolNamesItsPicker(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]gatewayapi.Picker{
		"name: picker, port: {number: 9002}":                                              {Host: "picker.edge.svc.cluster.local", Port: 9002},
		"name: picker, port: {number: 9002}, failureMode: FailClose":                      {Host: "picker.edge.svc.cluster.local", Port: 9002},
		"name: picker, port: {number: 9002}, failureMode: FailOpen":                       {Host: "picker.edge.svc.cluster.local", Port: 9002, FailOpen: true},
		"group: networking.istio.io, kind: ServiceEntry, name: picker, port: {number: 1}": {Host: "picker.example.com", Port: 1},
		"group: networking.istio.io, kind: Hostname, name: a.b, port: {number: 2}":        {Host: "a.b", Port: 2},
	} {
		p := poolOf(t, models("endpointPickerRef: {"+ref+"}"))
		require.Equal(t, want, p.Picker, ref)
		require.Empty(t, p.Problems, ref)
		require.Empty(t, p.PickerFault(true, true), ref)
		require.Equal(t, []uint32{8001, 8000}, p.Ports)
	}
}

// A pool says why its picker cannot be asked, whatever services there are.
func TestPickersThatAreWrong(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"kind: Thing, name: picker, port: {number: 1}":                                                      `a Thing of "" can be no endpoint picker`,
		"group: example.com, name: picker, port: {number: 1}":                                               `a Service of "example.com" can be no endpoint picker`,
		"group: inference.networking.k8s.io, kind: InferencePool, name: llama, port: {number: 1}":           `a InferencePool of "inference.networking.k8s.io" can be no endpoint picker`,
		"group: networking.istio.io, kind: ServiceEntry, name: nobody, port: {number: 1}":                   "there is no ServiceEntry edge/nobody",
		"group: networking.istio.io, kind: ServiceEntry, name: picker":                                      "write it into spec.endpointPickerRef.port",
		"group: networking.istio.io, kind: Hostname, name: a.b":                                             "write it into spec.endpointPickerRef.port",
		"group: networking.istio.io, kind: Hostname, name: llama.edge.inference~pool, port: {number: 8001}": "can be no endpoint picker",
	} {
		p := poolOf(t, models("endpointPickerRef: {"+ref+"}"))
		require.Contains(t, p.PickerFault(true, true), want, ref)
		require.NotNil(t, p.Entry(), "its requests fail, or go anywhere in it: %s", ref)
	}
	p := poolOf(t, models(byService))
	require.Equal(t, "there is no service picker.edge.svc.cluster.local with the port 9002", p.PickerFault(false, false))
	require.Contains(t, p.PickerFault(true, false), "port 9002 of picker.edge.svc.cluster.local is not declared as GRPC or HTTP2")
}

// What no rule has checked may be no pool: it says so, and nothing else.
func TestAPoolThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for spec, problems := range map[string]int{`{"targetPorts": "8000"}`: 1, `{}`: 0, `{"targetPorts": [{"number": 8000}]}`: 0} {
		fields := &structpb.Struct{}
		require.NoError(t, fields.UnmarshalJSON([]byte(spec)))
		r := *poolOf(t, models(byService)).Resource
		r.Spec = kinds.SpecOf(fields)
		p := gatewayapi.ReadPool(&r, func(kinds.Key) []string { return nil })
		require.Nil(t, p.Entry(), "it has no ports, or selects nothing: %s", spec)
		require.Len(t, p.Problems, problems, spec)
		if problems > 0 {
			require.Equal(t, p.Problems, p.AllProblems("nobody is there", false), "the rest follows from it")
		}
	}
	require.Nil(t, (*gatewayapi.Pool)(nil).Entry())
	require.True(t, (*gatewayapi.Pool)(nil).Same(nil))
	require.False(t, poolOf(t, models(byService)).Same(nil))
}

func entryOf(t *testing.T, p *gatewayapi.Pool) (*kinds.Resource, *networking.ServiceEntry) {
	t.Helper()
	require.NotNil(t, p.Entry())
	return p.Entry(), p.Entry().Spec.Message().(*networking.ServiceEntry)
}

func TestAPoolIsAServiceWithAPortForEachOfItsOwn(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[string]string{"": "HTTP", ", appProtocol: http": "HTTP", ", appProtocol: kubernetes.io/h2c": "HTTP2"} {
		p := poolOf(t, models(byService+protocol))
		r, entry := entryOf(t, p)
		require.Equal(t, gatewayapi.KindPool, r.Kind)
		require.Empty(t, r.Labels, "those of a pool are none of its service")
		require.Equal(t, []string{"llama.edge.inference~pool"}, entry.GetHosts())
		require.Equal(t, p.Host(), entry.GetHosts()[0])
		require.True(t, gatewayapi.IsPoolHost(p.Host()))
		require.Equal(t, networking.ServiceEntry_STATIC, entry.GetResolution())
		require.Equal(t, map[string]string{"model": "llama", "size": "small"}, entry.GetWorkloadSelector().GetLabels())
		var ports []string
		for _, port := range entry.GetPorts() {
			ports = append(ports, fmt.Sprint(port.GetNumber(), " ", port.GetTargetPort(), " ", port.GetProtocol()))
		}
		require.Equal(t, []string{"8001 8001 " + want, "8000 8000 " + want}, ports)
	}
}

// The Pods that a registry says a pool has are endpoints of it, beside the WorkloadEntries that it selects.
func TestAPoolListsThePodsOfItsRegistry(t *testing.T) {
	t.Parallel()
	pod := &networking.WorkloadEntry{Address: "10.0.0.1", Labels: map[string]string{"model": "llama"}, ServiceAccount: "model"}
	other := &networking.WorkloadEntry{Address: "10.0.0.2"}
	one, more := poolOf(t, models(byService), pod), poolOf(t, models(byService), pod, other)
	r, entry := entryOf(t, one)
	require.Nil(t, entry.GetWorkloadSelector(), "a selector cannot stand beside endpoints")
	require.Len(t, entry.GetEndpoints(), 1)
	require.Equal(t, pod.String(), entry.GetEndpoints()[0].String())
	require.Equal(t, map[string]string{kinds.OriginEntryAnnotation: "inferencepools/edge/llama", kinds.SelectorAnnotation: "model=llama,size=small"}, r.Annotations)

	grown, _ := entryOf(t, more)
	require.Equal(t, r.Annotations, grown.Annotations, "more Pods have the service keep its shape")
	require.True(t, one.Same(more))
	require.Contains(t, one.Resource.Annotations, kinds.OriginEndpointsAnnotation, "the pool itself is as it was")
}

func TestAPoolSaysHowItStandsAtGateways(t *testing.T) {
	t.Parallel()
	p := poolOf(t, models(byService))
	at := func(namespace, name string) kinds.Key {
		return kinds.Key{Kind: gatewayapi.KindGateway, Namespace: namespace, Name: name}
	}
	parents := func(s *gatewayapi.Status) (out []string) {
		for _, parent := range s.Parents {
			require.Equal(t, gatewayapi.Controller, parent.ControllerName)
			out = append(out, *parent.ParentRef.Namespace+"/"+parent.ParentRef.Name+" "+told(parent.Conditions))
		}
		return out
	}
	stands := p.Status(map[kinds.Key]bool{at("shop", "b"): true, at("edge", "z"): true, at("shop", "a"): true}, "")
	require.Equal(t, []string{"edge/z " + taken, "shop/a " + taken, "shop/b " + taken}, parents(stands))
	require.Equal(t, []string{"edge/z Accepted=True:Accepted ResolvedRefs=False:InvalidExtensionRef"}, parents(p.Status(map[kinds.Key]bool{at("edge", "z"): true}, "nobody is there")))
	require.Empty(t, p.Status(nil, "nobody is there").Parents, "no route leads to it")

	many := map[kinds.Key]bool{}
	for i := range 40 {
		many[at("edge", fmt.Sprint("g", i))] = true
	}
	require.Len(t, p.Status(many, "").Parents, 32, "the API has room for no more")
}

func TestWhatIsWrongWithAPool(t *testing.T) {
	t.Parallel()
	problems := func(p *gatewayapi.Pool, fault string, selectsSome bool) (paths []string, text string) {
		for _, problem := range p.AllProblems(fault, selectsSome) {
			require.Equal(t, p.Key(), problem.Of)
			paths, text = append(paths, problem.Path), text+problem.Reason+"\n"
		}
		return paths, text
	}
	closed, open := poolOf(t, models(byService)), poolOf(t, models("endpointPickerRef: {name: picker, port: {number: 9002}, failureMode: FailOpen}"))
	paths, _ := problems(closed, "", true)
	require.Empty(t, paths)
	paths, text := problems(closed, "nobody is there", false)
	require.Equal(t, []string{"spec.endpointPickerRef", "spec.selector"}, paths)
	require.Contains(t, text, "nobody is there: requests to the pool fail, as failureMode FailClose says")
	require.Contains(t, text, "no workload of the namespace edge has these labels")
	_, text = problems(open, "nobody is there", true)
	require.Contains(t, text, "requests to the pool go to any of its endpoints, as failureMode FailOpen says")
}
