package main

import (
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// rule is a constraint that neither the descriptors nor the CRDs state.
type rule struct {
	message, field string
	tighten        func(*schema.Field)
}

func between(low, high float64) func(*schema.Field) {
	return func(f *schema.Field) { f.Min, f.Max = &low, &high }
}

func notEmpty(f *schema.Field)  { f.MinLength = number(1) }
func someItems(f *schema.Field) { f.MinItems = number(1) }
func required(f *schema.Field)  { f.Required = true }

const network = "istio.networking.v1alpha3."

// rules is where every rule of our own stands.
//
// Weights are stricter here than in Istio, which adds up whatever numbers it is given: a weight is a share of 100,
// because a slip of the finger in one (900 for 90) silently starves all the others.
//
// A list of hosts may be absent where Istio gives that a meaning (a delegate VirtualService has none), but a list that
// is there and empty is always a mistake.
var rules = []rule{
	{network + "HTTPRouteDestination", "weight", between(0, 100)},
	{network + "RouteDestination", "weight", between(0, 100)},
	{network + "VirtualService", "hosts", someItems},
	{network + "VirtualService", "hosts", notEmpty},
	{network + "ServiceEntry", "hosts", someItems},
	{network + "ServiceEntry", "hosts", notEmpty},
	{network + "Gateway", "servers", required},
	{network + "Gateway", "servers", someItems},
	{network + "Server", "hosts", someItems},
	{network + "Server", "hosts", notEmpty},
	{network + "DestinationRule", "host", notEmpty},
	{network + "Destination", "host", notEmpty},
	{network + "IstioEgressListener", "hosts", someItems},
	{network + "IstioEgressListener", "hosts", notEmpty},
	{network + "Subset", "name", notEmpty},
}

func override(types map[string]*schema.Type) error {
	for _, r := range rules {
		t := types[r.message]
		if t == nil {
			return fmt.Errorf("a rule names the message %s, which no kind has", r.message)
		}
		i := slices.IndexFunc(t.Fields, func(f schema.Field) bool { return f.Name == r.field })
		if i < 0 {
			return fmt.Errorf("a rule names the field %s of %s, which has none such", r.field, r.message)
		}
		r.tighten(&t.Fields[i])
	}
	return nil
}
