package inspect

import (
	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/discovery/push"
)

// section is one type of a dump.
type section struct {
	name, typeURL string
	// dump makes the message that Envoy's own dump has for these, so that tools for that can read
	// this one.
	dump func(revision string, all []dumped) proto.Message
}

// sections are in the order of Envoy's own dump; those that it lacks come last.
var sections = []section{
	{"clusters", push.ClusterType, func(revision string, all []dumped) proto.Message {
		return &adminv3.ClustersConfigDump{VersionInfo: revision, DynamicActiveClusters: each(all, dumped.cluster)}
	}},
	{"listeners", push.ListenerType, func(revision string, all []dumped) proto.Message {
		return &adminv3.ListenersConfigDump{VersionInfo: revision, DynamicListeners: each(all, dumped.listener)}
	}},
	{"routes", push.RouteType, func(_ string, all []dumped) proto.Message {
		return &adminv3.RoutesConfigDump{DynamicRouteConfigs: each(all, dumped.route)}
	}},
	{"hosts", push.VirtualHostType, nil},
	{"scopes", push.ScopedRouteType, dumpScopes},
	{"endpoints", push.EndpointType, func(_ string, all []dumped) proto.Message {
		return &adminv3.EndpointsConfigDump{DynamicEndpointConfigs: each(all, dumped.endpoint)}
	}},
	{"secrets", push.SecretType, func(_ string, all []dumped) proto.Message {
		return &adminv3.SecretsConfigDump{DynamicActiveSecrets: each(all, dumped.secret)}
	}},
	{"extensions", push.ExtensionType, func(_ string, all []dumped) proto.Message {
		return &adminv3.EcdsConfigDump{EcdsFilters: each(all, dumped.extension)}
	}},
	{"names", push.NameTableType, nil},
}

// add adds a type to a dump. Types that Envoy's own dump lacks are added as plain resources.
func (s section) add(out *adminv3.ConfigDump, revision string, all []dumped) error {
	if s.dump == nil {
		out.Configs = append(out.Configs, each(all, func(d dumped) *anypb.Any { return d.body })...)
		return nil
	}
	message := s.dump(revision, all)
	if message == nil {
		return nil
	}
	packed, err := anypb.New(message)
	out.Configs = append(out.Configs, packed)
	return err
}

// dumpScopes returns nothing if there are none: few gateways have scopes.
func dumpScopes(_ string, all []dumped) proto.Message {
	if len(all) == 0 {
		return nil
	}
	return &adminv3.ScopedRoutesConfigDump{DynamicScopedRouteConfigs: each(all, dumped.scope)}
}

func each[T any](all []dumped, as func(dumped) *T) (out []*T) {
	for _, d := range all {
		out = append(out, as(d))
	}
	return out
}

// dumped is a resource in a dump.
type dumped struct {
	name, version string
	body          *anypb.Any
	status        adminv3.ClientResourceStatus
	failure       *adminv3.UpdateFailureState // nil for none
}

func (d dumped) cluster() *adminv3.ClustersConfigDump_DynamicCluster {
	return &adminv3.ClustersConfigDump_DynamicCluster{VersionInfo: d.version, Cluster: d.body, ClientStatus: d.status, ErrorState: d.failure}
}

func (d dumped) listener() *adminv3.ListenersConfigDump_DynamicListener {
	return &adminv3.ListenersConfigDump_DynamicListener{
		Name: d.name, ClientStatus: d.status, ErrorState: d.failure,
		ActiveState: &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: d.version, Listener: d.body},
	}
}

func (d dumped) route() *adminv3.RoutesConfigDump_DynamicRouteConfig {
	return &adminv3.RoutesConfigDump_DynamicRouteConfig{VersionInfo: d.version, RouteConfig: d.body, ClientStatus: d.status, ErrorState: d.failure}
}

// scope has one scope alone. Envoy's own dump has all in one; this way each has its version.
func (d dumped) scope() *adminv3.ScopedRoutesConfigDump_DynamicScopedRouteConfigs {
	return &adminv3.ScopedRoutesConfigDump_DynamicScopedRouteConfigs{
		Name: d.name, VersionInfo: d.version, ScopedRouteConfigs: []*anypb.Any{d.body}, ClientStatus: d.status, ErrorState: d.failure,
	}
}

func (d dumped) endpoint() *adminv3.EndpointsConfigDump_DynamicEndpointConfig {
	return &adminv3.EndpointsConfigDump_DynamicEndpointConfig{VersionInfo: d.version, EndpointConfig: d.body, ClientStatus: d.status, ErrorState: d.failure}
}

func (d dumped) secret() *adminv3.SecretsConfigDump_DynamicSecret {
	return &adminv3.SecretsConfigDump_DynamicSecret{Name: d.name, VersionInfo: d.version, Secret: d.body, ClientStatus: d.status, ErrorState: d.failure}
}

func (d dumped) extension() *adminv3.EcdsConfigDump_EcdsFilterConfig {
	return &adminv3.EcdsConfigDump_EcdsFilterConfig{VersionInfo: d.version, EcdsFilter: d.body, ClientStatus: d.status, ErrorState: d.failure}
}
