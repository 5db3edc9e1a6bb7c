package envoy

import (
	_ "embed"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// stockList is what a stock Envoy says that it has: a line for each type of an extension's configuration, behind the category
// of the extension.
//
//go:embed stock.txt
var stockList string

// known is what a stock Envoy has: the types of each category, and the packages that they are from.
type known struct {
	categories map[string]map[string]bool
	packages   map[string]bool
}

var stock = sync.OnceValue(func() known {
	k := known{map[string]map[string]bool{}, map[string]bool{}}
	for line := range strings.Lines(stockList) {
		category, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if k.categories[category] == nil {
			k.categories[category] = map[string]bool{}
		}
		k.categories[category][name] = true
		k.packages[packageOf(name)] = true
	}
	return k
})

// packageOf cuts the message off a type's name. Packages end in their version.
func packageOf(name string) string {
	for i := strings.Index(name, ".v"); i >= 0; {
		version := i + 2
		if end := strings.IndexByte(name[version:], '.'); end > 0 && name[version] >= '0' && name[version] <= '9' {
			return name[:version+end]
		}
		next := strings.Index(name[version:], ".v")
		if next < 0 {
			break
		}
		i = version + next
	}
	return name[:max(0, strings.LastIndexByte(name, '.'))]
}

// isStock tells whether a stock Envoy has what a type belongs to. Only extensions can be missing.
func isStock(d protoreflect.MessageDescriptor) bool {
	of := string(d.ParentFile().Package())
	return !strings.HasPrefix(of, "envoy.extensions.") || stock().packages[of]
}

// The categories of filters and sockets, whose configuration must be of one of the same category.
const (
	httpFilters     = "envoy.filters.http"
	networkFilters  = "envoy.filters.network"
	upstreamFilters = "envoy.filters.upstream_network"
	listenerFilters = "envoy.filters.listener"
	udpFilters      = "envoy.filters.udp_listener"
	quicFilters     = "envoy.filters.quic_listener"
	upstreamSockets = "envoy.transport_sockets.upstream"
)

func (c category) has(name protoreflect.FullName) bool {
	for _, one := range c {
		if stock().categories[one][string(name)] {
			return true
		}
	}
	return false
}

type category []string
