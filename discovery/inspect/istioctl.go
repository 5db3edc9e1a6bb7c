package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/version"
)

// The types by which Istio's tools ask a control plane for its proxies.
const (
	debugType      = "istio.io/debug"
	syncStatusType = debugType + "/syncz"
	configDumpType = debugType + "/config_dump"
	// distributionType is what Istio had up to 1.22.
	distributionType = debugType + "/config_distribution"
)

var errNoDistribution = grpcstatus.Error(codes.Unimplemented,
	"Istio took config_distribution away in 1.23; here, revisions say what proxies run: ask mesh.runs('KIND', 'NAMESPACE', 'NAME') in psql, or mcp-client describe")

// Istioctl answers what istioctl asks over xDS, from what the pages show.
type Istioctl struct {
	*Inspector

	Name string // of this discovery
	// Viewer returns the namespace whose proxies the caller may see; "" for all. Its error refuses
	// the caller and carries a gRPC status.
	Viewer func(context.Context) (namespace string, err error)
}

// Questions are what istioctl asks.
func (i *Istioctl) Questions() ads.Questions {
	return ads.Questions{
		Are:   func(typeURL string) bool { return typeURL == debugType || strings.HasPrefix(typeURL, debugType+"/") },
		Reply: i.reply,
	}
}

func (i *Istioctl) reply(ctx context.Context, typeURL string, names []string) (reply ads.Reply, err error) {
	namespace, err := i.Viewer(ctx)
	if err != nil {
		return reply, err
	}
	reply.Identifier = i.identifier()
	seen := within(namespace, i.clients())
	switch typeURL {
	case syncStatusType:
		reply.Resources, err = syncStatuses(seen)
	case configDumpType:
		reply.Resources, err = configDumps(names, seen)
	case distributionType:
		err = errNoDistribution
	case debugType:
		reply.Resources, err = debugPage(names, seen)
	default:
		err = grpcstatus.Errorf(codes.NotFound, "discovery does not know %.100q: istioctl asks for %s, %s, and %s", typeURL, syncStatusType, configDumpType, debugType)
	}
	return reply, err
}

// within leaves the clients of a namespace; all of them if it is "".
func within(namespace string, all []client) (of []client) {
	for _, c := range all {
		if namespace == "" || c.Proxy.Namespace == namespace {
			of = append(of, c)
		}
	}
	return of
}

// controlPlane is how istioctl wants a control plane to name itself.
type controlPlane struct {
	Component, ID string

	Info buildInfo
}

type buildInfo struct {
	Version string `json:"version"`
	Go      string `json:"golang_version"`
}

func (i *Istioctl) identifier() string {
	text, err := json.Marshal(controlPlane{"discovery", i.Name, buildInfo{version.Program(), runtime.Version()}})
	if err != nil {
		panic(fmt.Sprintf("write the name of this discovery: %v", err)) // texts always can be written
	}
	return string(text)
}

// configDumps are the parts of the dump of one proxy.
func configDumps(names []string, seen []client) (all []*served.Resource, err error) {
	if len(names) != 1 {
		return nil, grpcstatus.Errorf(codes.InvalidArgument, "a dump is of one proxy, and not of %d: name it, as in client.shop", len(names))
	}
	found, err := of(names[0], seen)
	switch {
	case err != nil:
		return nil, grpcstatus.Error(codes.NotFound, err.Error())
	case found[0].snapshot == nil:
		return nil, grpcstatus.Error(codes.Unavailable, "there is no configuration yet: /readyz says what is missing")
	}
	dump, err := dumpOf(found[0], selection{})
	if err != nil {
		return nil, grpcstatus.Error(codes.Internal, err.Error())
	}
	for _, part := range dump.GetConfigs() {
		all = append(all, &served.Resource{Name: part.GetTypeUrl(), Body: part})
	}
	return all, nil
}
