package filter

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/extauthz"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/need"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
)

// sessionFilter does nothing for routes that do not configure it.
var sessionFilter = message.HTTPFilter(route.SessionFilter, &sessionv3.StatefulSession{})

// addNeeded adds, before the router, the filters that routes need. Preflights of CORS were answered
// before that.
func addNeeded(m *hcmv3.HttpConnectionManager, needed need.Filters) {
	var added []*hcmv3.HttpFilter
	if needed.Authorizations {
		added = append(added, extauthz.Place)
	}
	if needed.Sessions {
		added = append(added, sessionFilter)
	}
	if needed.Pickers {
		added = append(added, pickerFilter)
		m.EarlyHeaderMutationExtensions = append(slices.Clone(m.GetEarlyHeaderMutationExtensions()), noOwnChoice)
	}
	if len(added) > 0 {
		m.HttpFilters = slices.Insert(slices.Clone(m.GetHttpFilters()), len(m.GetHttpFilters())-1, added...)
	}
}

// marked tells routes which connections have the filter without which they may let nothing pass.
func marked(filters []*listenerv3.Filter, needed need.Filters) []*listenerv3.Filter {
	if !needed.Authorizations {
		return filters
	}
	return append([]*listenerv3.Filter{extauthz.Mark}, filters...)
}
