package redirect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Listeners describes Envoy's listeners for redirected connections.
type Listeners struct {
	OutboundTo, InboundTo uint16
	IPv4, IPv6            bool
	// Services are the ports of this machine's services, as the mesh knows them.
	Services Ports
}

// Their names are Istio's; discovery uses them.
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

// Admin calls Envoy's admin API.
type Admin func(ctx context.Context, path string) (string, error)

// AskListeners checks that Envoy is ready, and returns its listeners for redirected connections.
func AskListeners(ctx context.Context, admin Admin) (Listeners, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	if _, err := admin(ctx, "/ready"); err != nil {
		return Listeners{}, err
	}
	answer, err := admin(ctx, "/listeners?format=json")
	if err != nil {
		return Listeners{}, err
	}
	found, err := readListeners([]byte(answer))
	if err != nil {
		return Listeners{}, err
	}
	answer, err = admin(ctx, "/config_dump?resource=dynamic_listeners&name_regex=^"+virtualInbound+"$")
	if err == nil {
		found.Services, err = readServices([]byte(answer))
	}
	return found, err
}

// adminTimeout is longer than a responding Envoy ever takes.
const adminTimeout = 3 * time.Second

// readListeners parses the answer to /listeners?format=json.
func readListeners(answer []byte) (Listeners, error) {
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

// readServices reads the service ports from the listener's configuration: it has a filter chain
// named after each service port, and some with the listener's own name for other ports.
func readServices(answer []byte) (Ports, error) {
	var all struct {
		Configs []struct {
			Active struct {
				Listener struct {
					Chains []struct {
						Name  string `json:"name"`
						Match struct {
							Port uint16 `json:"destination_port"`
						} `json:"filter_chain_match"`
					} `json:"filter_chains"`
				} `json:"listener"`
			} `json:"active_state"`
		} `json:"configs"`
	}
	if err := json.Unmarshal(answer, &all); err != nil {
		return nil, fmt.Errorf("read which ports Envoy has for services: %w", err)
	}
	var ports []uint16
	for _, c := range all.Configs {
		for _, chain := range c.Active.Listener.Chains {
			if !strings.HasPrefix(chain.Name, virtualInbound) {
				ports = append(ports, chain.Match.Port)
			}
		}
	}
	return PortsOf(ports...), nil
}
