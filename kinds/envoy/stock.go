package envoy

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// stockList is stock.txt, which programs have compressed. It has a line for each extension's
// configuration type in a stock Envoy: the category of the extension and the type.
//
//go:embed stock.txt.gz
var stockList []byte

// stockLines are the lines of the list.
func stockLines() []string {
	text, err := gzip.NewReader(bytes.NewReader(stockList))
	if err != nil {
		panic(fmt.Sprintf("the embedded stock.txt is broken, write it anew: %v", err))
	}
	list, err := io.ReadAll(text)
	if err != nil {
		panic(fmt.Sprintf("the embedded stock.txt is broken, write it anew: %v", err))
	}
	return strings.Split(strings.TrimSpace(string(list)), "\n")
}

// known is what a stock Envoy has: the types of each category, and the packages of all types.
type known struct {
	categories map[string]map[string]bool
	packages   map[string]bool
}

var stock = sync.OnceValue(func() known {
	k := known{map[string]map[string]bool{}, map[string]bool{}}
	for _, line := range stockLines() {
		category, name, _ := strings.Cut(line, " ")
		if k.categories[category] == nil {
			k.categories[category] = map[string]bool{}
		}
		k.categories[category][name] = true
		k.packages[packageOf(name)] = true
	}
	return k
})

// packageOf removes the message from a type's name. A package ends in its version.
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

// isStock reports whether a stock Envoy has the extension that a type belongs to. Types of other
// packages are always there.
func isStock(d protoreflect.MessageDescriptor) bool {
	of := string(d.ParentFile().Package())
	return !strings.HasPrefix(of, "envoy.extensions.") || stock().packages[of]
}

// Categories of filters and sockets. The configuration of a filter must be of the category of its
// place.
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
