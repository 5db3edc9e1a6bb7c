package plugin

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	"google.golang.org/protobuf/proto"
)

// Names of the statistics of stand-ins, which are Istio's.
const (
	allowPrefix = "wasm-default-allow"
	denyPrefix  = "wasm-default-deny"
)

// standInVersion begins the versions of stand-ins, which discovery has none of: it sends the plugin
// itself again when it hears of one.
const standInVersion = "stand-in:"

// StandIn returns what stands in for a plugin that cannot run, and its version: a filter that lets
// everything pass if the plugin fails open, or one that refuses everything.
func (p *Plugin) StandIn() (body []byte, version string, err error) {
	prefix, rules := denyPrefix, &rbacv3.RBAC{} // rules that allow nobody
	if p.FailOpen {
		prefix, rules = allowPrefix, nil
	}
	var filter proto.Message = &httprbacv3.RBAC{Rules: rules, RulesStatPrefix: prefix}
	if p.Network {
		filter = &networkrbacv3.RBAC{Rules: rules, StatPrefix: prefix}
	}
	body, err = pack(p.Name, filter)
	return body, standInVersion + prefix, err
}

// StandInFor returns what stands in for a plugin that has its module in a file, which is gone.
func StandInFor(body []byte) ([]byte, string, error) {
	name, filter, config, err := open(body)
	if err != nil {
		return nil, "", err
	}
	_, network := filter.(*networkv3.Wasm)
	return (&Plugin{Name: name, FailOpen: failsOpen(config), Network: network}).StandIn()
}

// IsStandIn reports whether a version is that of a stand-in.
func IsStandIn(version string) bool { return strings.HasPrefix(version, standInVersion) }
