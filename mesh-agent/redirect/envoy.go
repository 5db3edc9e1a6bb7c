package redirect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
)

// Listeners are where Envoy takes what is redirected.
type Listeners struct {
	OutboundTo, InboundTo uint16
	IPv4, IPv6            bool
}

// The names that discovery gives them, which are Istio's.
const (
	virtualOutbound = "virtualOutbound"
	virtualInbound  = "virtualInbound"
)

type envoyAddress struct {
	Socket struct {
		Address netip.Addr `json:"address"`
		Port    uint16     `json:"port_value"`
	} `json:"socket_address"`
}

// ReadListeners reads what Envoy's admin API answers to /listeners?format=json.
func ReadListeners(answer []byte) (Listeners, error) {
	var all struct {
		Statuses []struct {
			Name       string         `json:"name"`
			Local      envoyAddress   `json:"local_address"`
			Additional []envoyAddress `json:"additional_local_addresses"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(answer, &all); err != nil {
		return Listeners{}, fmt.Errorf("read which listeners Envoy has: %w", err)
	}
	var found Listeners
	for _, s := range all.Statuses {
		switch s.Name {
		case virtualOutbound:
			found.OutboundTo = s.Local.Socket.Port
			for _, a := range append(s.Additional, s.Local) {
				found.IPv4 = found.IPv4 || a.Socket.Address.Unmap().Is4()
				found.IPv6 = found.IPv6 || a.Socket.Address.Is6()
			}
		case virtualInbound:
			found.InboundTo = s.Local.Socket.Port
		}
	}
	if found.OutboundTo == 0 || found.InboundTo == 0 {
		return found, errors.New("Envoy does not listen for redirected connections yet: discovery has not sent it the listeners virtualOutbound and virtualInbound")
	}
	return found, nil
}
