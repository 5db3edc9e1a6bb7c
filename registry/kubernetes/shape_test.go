package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/registry"
)

const (
	edgePath  = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/edge"
	routePath = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web"
	classPath = "/apis/gateway.networking.k8s.io/v1/gatewayclasses/ours"
)

func ofAPI(kind, name string, spec kubetest.Object) kubetest.Object {
	return kubetest.Object{"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": kubetest.Object{"name": name}, "spec": spec}
}

func gatewayOf(listeners ...string) kubetest.Object {
	var all []kubetest.Object
	for i, name := range listeners {
		all = append(all, kubetest.Object{"name": name, "port": 80 + i, "protocol": "HTTP"})
	}
	return ofAPI("Gateway", "edge", kubetest.Object{"gatewayClassName": "ours", "listeners": all})
}

func routeTo(parents ...string) kubetest.Object {
	var all []kubetest.Object
	for _, name := range parents {
		all = append(all, kubetest.Object{"name": name})
	}
	return ofAPI("HTTPRoute", "web", kubetest.Object{"parentRefs": all, "rules": []kubetest.Object{{"backendRefs": []kubetest.Object{{"name": "web", "port": 80}}}}})
}

// said writes conditions as JSON: each is TYPE STATUS REASON.
func said(conditions ...string) string {
	var all []string
	for _, c := range conditions {
		f := strings.Fields(c)
		all = append(all, fmt.Sprintf(`{"type": %q, "status": %q, "reason": %q, "message": ""}`, f[0], f[1], f[2]))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// atParents is the status of a route, by the names of its parents.
func atParents(conditions string, parents ...string) string {
	var all []string
	for _, name := range parents {
		all = append(all, fmt.Sprintf(`{"parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": %q}, "controllerName": "pgmesh.io/gateway-controller", "conditions": %s}`, name, conditions))
	}
	return `{"parents": [` + strings.Join(all, ", ") + "]}"
}

// becomes tells what became of a resource of the Gateway API.
func (w *writing) becomes(resource, own string) {
	w.t.Helper()
	w.Lock()
	r := w.All[resource]
	w.Unlock()
	require.NotNil(w.t, r, resource)
	w.to <- []registry.Status{{Resource: r, Conditions: programmed("True"), Own: json.RawMessage(own)}}
}

// object is an object with a status of the Gateway API.
type object struct {
	Metadata struct{ Generation int64 }
	Status   struct {
		Conditions conditions
		Parents    []struct {
			ParentRef      struct{ Name string }
			ControllerName string
			Conditions     conditions
		}
		Ancestors []struct {
			AncestorRef    struct{ Name string }
			ControllerName string
			Conditions     conditions
		}
		Listeners []struct {
			Name           string
			AttachedRoutes int
			Conditions     conditions
		}
		Addresses            []struct{ Value string }
		AttachedListenerSets int
		SupportedFeatures    []struct{ Name string }
	}
}

type conditions []struct {
	Type, Status, Reason, LastTransitionTime string
	ObservedGeneration                       int64
}

func (all conditions) String() string {
	var out []string
	for _, c := range all {
		out = append(out, fmt.Sprintf("%s=%s:%s@%d", c.Type, c.Status, c.Reason, c.ObservedGeneration))
	}
	return strings.Join(out, " ")
}

func (o *object) String() string {
	out := []string{o.Status.Conditions.String()}
	for _, p := range o.Status.Parents {
		out = append(out, fmt.Sprintf("%s by %s: %s", p.ParentRef.Name, p.ControllerName, p.Conditions))
	}
	for _, a := range o.Status.Ancestors {
		out = append(out, fmt.Sprintf("%s by %s: %s", a.AncestorRef.Name, a.ControllerName, a.Conditions))
	}
	for _, l := range o.Status.Listeners {
		out = append(out, fmt.Sprintf("%s (%d): %s", l.Name, l.AttachedRoutes, l.Conditions))
	}
	return strings.Join(out, "\n")
}

// says waits until an object says this.
func (w *writing) says(path, want string) (is object) {
	w.t.Helper()
	poll.Eventually(w.t, func(context.Context) error {
		is = object{}
		if err := json.Unmarshal(w.cluster.Get(path), &is); err != nil {
			return err
		}
		if is.String() != want {
			return fmt.Errorf("it says\n%s\nand not\n%s\nthe log: %s", &is, want, &w.log.Builder)
		}
		return nil
	})
	return is
}

func beginAPI(t *testing.T) *writing {
	t.Helper()
	c := kubetest.Start(t)
	c.Namespace(shop)
	c.InstallGatewayAPI()
	return write(t, c, c.Kubeconfig(c.Address, c.Admin()))
}

// A policy has an entry for each Gateway that leads to what it is for. Those of other controllers stay.
func TestAPolicysStatusHasAnEntryForEachAncestor(t *testing.T) {
	t.Parallel()
	w := beginAPI(t)
	w.cluster.Apply(policyPath, policy("ca"))
	w.UntilThere(t, policyKey)
	at := func(names ...string) string {
		return strings.NewReplacer("parents", "ancestors", "parentRef", "ancestorRef").Replace(atParents(said("Accepted True Accepted"), names...))
	}
	w.becomes(policyKey, at("edge", "inner"))
	w.says(policyPath, "\nedge by pgmesh.io/gateway-controller: Accepted=True:Accepted@1\ninner by pgmesh.io/gateway-controller: Accepted=True:Accepted@1")
	w.cluster.ApplyStatus(policyPath, kubetest.Object{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy", "status": kubetest.Object{"ancestors": []kubetest.Object{{
		"ancestorRef": kubetest.Object{"name": "others"}, "controllerName": "example.com/controller",
		"conditions": []kubetest.Object{{"type": "Accepted", "status": "True", "reason": "Theirs", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 1}},
	}}}})
	w.becomes(policyKey, at("edge"))
	w.says(policyPath, "\nothers by example.com/controller: Accepted=True:Theirs@1\nedge by pgmesh.io/gateway-controller: Accepted=True:Accepted@1")
}

func TestARoutesStatusHasAnEntryForEachParent(t *testing.T) {
	t.Parallel()
	w := beginAPI(t)
	w.cluster.Apply(routePath, routeTo("edge", "inner"))
	w.UntilThere(t, "HTTPRoute shop/web")
	w.cluster.ApplyStatus(routePath, kubetest.Object{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "status": kubetest.Object{"parents": []kubetest.Object{{
		"parentRef": kubetest.Object{"name": "edge"}, "controllerName": "example.com/other",
		"conditions": []kubetest.Object{{"type": "Accepted", "status": "False", "reason": "Theirs", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
	}}}})
	const theirs = "\nedge by example.com/other: Accepted=False:Theirs@0"
	w.becomes("HTTPRoute shop/web", atParents(said("Accepted True Accepted", "ResolvedRefs False BackendNotFound"), "edge", "inner"))
	first := w.says(routePath, theirs+"\nedge by pgmesh.io/gateway-controller: Accepted=True:Accepted@1 ResolvedRefs=False:BackendNotFound@1"+
		"\ninner by pgmesh.io/gateway-controller: Accepted=True:Accepted@1 ResolvedRefs=False:BackendNotFound@1")
	w.wrote(1)

	// The route has another generation, and one parent less.
	w.cluster.Apply(routePath, routeTo("edge"))
	w.Until(t, "it has changed", func() bool { return !strings.Contains(fmt.Sprint(w.All["HTTPRoute shop/web"].Spec.Message()), "inner") })
	w.becomes("HTTPRoute shop/web", atParents(said("Accepted True Accepted", "ResolvedRefs True ResolvedRefs"), "edge"))
	second := w.says(routePath, theirs+"\nedge by pgmesh.io/gateway-controller: Accepted=True:Accepted@2 ResolvedRefs=True:ResolvedRefs@2")
	require.Equal(t, first.Status.Parents[1].Conditions[0].LastTransitionTime, second.Status.Parents[1].Conditions[0].LastTransitionTime, "it was accepted all the time")

	// Whoever has no status any more loses the entries that are ours.
	w.becomes("HTTPRoute shop/web", "{}")
	w.says(routePath, theirs)
	w.wrote(3)
	require.Zero(t, w.registry.Writes().Failed)
}

func TestAGatewaysStatusHasItsListenersAndAddresses(t *testing.T) {
	t.Parallel()
	w := beginAPI(t)
	w.cluster.Apply(edgePath, gatewayOf("http", "more"))
	w.UntilThere(t, "Gateway shop/edge")
	listener := func(name string, routes int, conditions ...string) string {
		return fmt.Sprintf(`{"name": %q, "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}], "attachedRoutes": %d, "conditions": %s}`, name, routes, said(conditions...))
	}
	own := func(programmed, addresses string, routes int) string {
		return `{"conditions": ` + said("Accepted True Accepted", programmed) + `, "attachedListenerSets": 1, "addresses": ` + addresses + `, "listeners": [` +
			listener("http", routes, "Accepted True Accepted", programmed) + ", " + listener("more", 0, "Accepted False PortUnavailable") + "]}"
	}
	w.becomes("Gateway shop/edge", own("Programmed False NoResources", "[]", 0))
	w.says(edgePath, "Accepted=True:Accepted@1 Programmed=False:NoResources@1\nhttp (0): Accepted=True:Accepted@1 Programmed=False:NoResources@1\nmore (0): Accepted=False:PortUnavailable@1")
	w.becomes("Gateway shop/edge", own("Programmed True Programmed", `[{"type": "IPAddress", "value": "10.0.0.1"}]`, 3))
	is := w.says(edgePath, "Accepted=True:Accepted@1 Programmed=True:Programmed@1\nhttp (3): Accepted=True:Accepted@1 Programmed=True:Programmed@1\nmore (0): Accepted=False:PortUnavailable@1")
	require.Equal(t, "10.0.0.1", is.Status.Addresses[0].Value)
	require.Equal(t, 1, is.Status.AttachedListenerSets)
	w.wrote(2)

	w.cluster.Apply(edgePath, gatewayOf("more"))
	w.Until(t, "it has changed", func() bool {
		return !strings.Contains(fmt.Sprint(w.All["Gateway shop/edge"].Spec.Message()), "\"http\"")
	})
	w.becomes("Gateway shop/edge", `{"conditions": `+said("Accepted True Accepted")+`, "addresses": [], "listeners": [`+listener("more", 1, "Accepted True Accepted")+"]}")
	is = w.says(edgePath, "Accepted=True:Accepted@2\nmore (1): Accepted=True:Accepted@2")
	require.Empty(t, is.Status.Addresses)
}

func TestAClassSaysWhatItSupports(t *testing.T) {
	t.Parallel()
	w := beginAPI(t)
	w.cluster.Apply(classPath, ofAPI("GatewayClass", "ours", kubetest.Object{"controllerName": "pgmesh.io/gateway-controller"}))
	w.UntilThere(t, "GatewayClass ours")
	w.becomes("GatewayClass ours", `{"conditions": `+said("Accepted True Accepted")+`, "supportedFeatures": [{"name": "Gateway"}, {"name": "HTTPRoute"}]}`)
	is := w.says(classPath, "Accepted=True:Accepted@1")
	require.Len(t, is.Status.SupportedFeatures, 2)
	w.wrote(1)
}
