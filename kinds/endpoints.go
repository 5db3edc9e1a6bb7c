package kinds

import (
	"encoding/json"
	"net/netip"

	"google.golang.org/protobuf/encoding/protojson"
	"istio.io/api/networking/v1alpha3"
)

// Endpoints are those of an OriginEndpointsAnnotation. No rule has judged them, so there is no more to
// them than a registry says of a Pod, and those without an IP address are left out.
func (r *Resource) Endpoints() []*v1alpha3.WorkloadEntry {
	var all []json.RawMessage
	if json.Unmarshal([]byte(r.Annotations[OriginEndpointsAnnotation]), &all) != nil {
		return nil
	}
	out := make([]*v1alpha3.WorkloadEntry, 0, len(all))
	for _, text := range all {
		said := &v1alpha3.WorkloadEntry{}
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, said) != nil {
			continue
		}
		if ip, err := netip.ParseAddr(said.GetAddress()); err != nil || ip.Zone() != "" {
			continue
		}
		out = append(out, &v1alpha3.WorkloadEntry{
			Address: said.GetAddress(), Labels: said.GetLabels(), Locality: said.GetLocality(), Network: said.GetNetwork(), ServiceAccount: said.GetServiceAccount(),
		})
	}
	return out
}

// WrittenEndpoints writes endpoints as an annotation has them: the same ones always alike. One that says
// something that is not UTF-8 is left out.
func WrittenEndpoints(all []*v1alpha3.WorkloadEntry) string {
	texts := make([]json.RawMessage, 0, len(all))
	for _, e := range all {
		if text, err := protojson.Marshal(e); err == nil {
			texts = append(texts, text)
		}
	}
	text, err := json.Marshal(texts) // without the spaces of protojson, which are random
	if err != nil {
		panic(err) // it is JSON
	}
	return string(text)
}
