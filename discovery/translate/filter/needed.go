package filter

import (
	"slices"

	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/need"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
)

// sessionFilter does nothing for routes that do not configure it.
var sessionFilter = message.HTTPFilter(route.SessionFilter, &sessionv3.StatefulSession{})

// addNeeded adds, before the router, the filters that routes need.
func addNeeded(m *hcmv3.HttpConnectionManager, needed need.Filters) {
	if needed.Sessions {
		m.HttpFilters = slices.Insert(slices.Clone(m.GetHttpFilters()), len(m.GetHttpFilters())-1, sessionFilter)
	}
	if needed.Pickers {
		addPicker(m)
	}
}
