package main

import (
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// rule is a constraint that neither the descriptors nor the CRDs state.
type rule struct {
	message, field string
	change         func(*schema.Field)
}

func notNegative(f *schema.Field) { f.Min = number(0.0) }
func notEmpty(f *schema.Field)    { f.MinLength = number(1) }
func someItems(f *schema.Field)   { f.MinItems = number(1) }
func required(f *schema.Field)    { f.Required = true }
func optional(f *schema.Field)    { f.Required = false }

const (
	network = "istio.networking.v1alpha3."
	mesh    = "istio.mesh.v1alpha1."
)

// rules lists every rule of our own. They are the rules of Istio's validation about single fields,
// and no others.
//
// Istio documents some fields of networks as required that its validation does not demand:
// endpoints may name their network themselves, and a network that is not reachable from outside has
// no gateways.
var rules = []rule{
	{network + "HTTPRouteDestination", "weight", notNegative},
	{network + "RouteDestination", "weight", notNegative},
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
	{network + "WorkloadGroup", "template", func(f *schema.Field) { f.TypeRef = template }},
	{mesh + "MeshNetworks", "networks", optional},
	{mesh + "Network", "endpoints", optional},
	{mesh + "Network", "gateways", optional},
}

// template is the type of a WorkloadGroup's template: the fields of a WorkloadEntry, with rules of
// its own.
const template = network + "WorkloadGroup.Template"

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
		r.change(&t.Fields[i])
	}
	entry := types[network+"WorkloadEntry"]
	types[template] = &schema.Type{Fields: slices.Clone(entry.Fields), Oneofs: entry.Oneofs}
	return nil
}
