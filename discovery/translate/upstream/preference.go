package upstream

import (
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Preference says to which endpoints of an upstream a proxy is sent first, by where both are. At
// most one of the two settings is there.
type Preference struct {
	ByLocality *networking.LocalityLoadBalancerSetting
	ByZone     *networking.ZoneAwareLoadBalancerSetting
	// Always tells that it holds even if nobody notices that endpoints fail.
	Always bool
}

// PreferenceOf is what the rule says, or else the service, or else the mesh. It is empty if that is
// switched off.
func PreferenceOf(v view.View, u Upstream) Preference {
	lb := u.Policy.GetLoadBalancer()
	if zone := lb.GetZoneAwareLbSetting(); zone != nil {
		return byZone(zone)
	}
	if setting := lb.GetLocalityLbSetting(); setting != nil {
		return byLocality(setting)
	}
	if labels := u.Service.Distribution(); labels != nil {
		return Preference{ByLocality: &networking.LocalityLoadBalancerSetting{FailoverPriority: labels}, Always: true}
	}
	if zone := v.Config.GetZoneAwareLbSetting(); zone != nil {
		return byZone(zone)
	}
	if setting := v.Config.GetLocalityLbSetting(); setting != nil {
		return byLocality(setting)
	}
	return Preference{}
}

func byZone(setting *networking.ZoneAwareLoadBalancerSetting) Preference {
	return Preference{ByZone: setting, Always: enabled(setting.GetEnabled())}
}

func byLocality(setting *networking.LocalityLoadBalancerSetting) Preference {
	if !enabled(setting.GetEnabled()) {
		return Preference{}
	}
	return Preference{ByLocality: setting}
}

// ZoneDisabled reports whether endpoints are not to be chosen by zone, although Envoy would by
// itself.
func (p Preference) ZoneDisabled() bool { return p.ByZone != nil && !enabled(p.ByZone.GetEnabled()) }

// enabled reads a switch that is on unless someone turned it off.
func enabled(value *wrapperspb.BoolValue) bool { return value == nil || value.GetValue() }
