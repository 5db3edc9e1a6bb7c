package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/mesh-agent/identity/member"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// namesakesTimeout bounds the question who else has this machine's name.
const namesakesTimeout = 10 * time.Second

// WarnOfNamesakes asks the mesh whether another machine has the name that this one would have, and
// logs that. It is no more than a warning: the machine is a member, and can be named otherwise.
func (m *Machine) WarnOfNamesakes(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, namesakesTimeout)
	defer cancel()
	name, others, err := m.namesakes(ctx, log)
	switch {
	case status.Code(err) == codes.Unimplemented: // an older discovery
	case err != nil:
		log.Warn("whether another machine has this one's name cannot be told", "error", err)
	case len(others) > 0:
		log.Warn("another machine of this name is in the mesh, and two agents under one name take each other's place again and again. "+
			"If this machine is another, name it otherwise: id: NAME in /etc/mesh-agent/mesh-agent.yaml, or mesh-agent run --id NAME. "+
			"If it takes the place of that one, end that one first; join --take-over does not ask", "proxy", name, "services", strings.Join(others, ", "))
	}
}

// namesakes returns the name that this machine's proxy has, and the services elsewhere under that
// name.
func (m *Machine) namesakes(ctx context.Context, log *slog.Logger) (name string, others []string, err error) {
	who, err := m.Member(ctx, log, nil)
	if err != nil {
		return "", nil, err
	}
	proxy, err := m.Proxy(who)
	if err != nil {
		return "", nil, err
	}
	discovery, err := m.Connect(who, log, nil)
	if err != nil {
		return "", nil, err
	}
	defer discovery.Close()
	answer, err := machinev1.NewMachineServiceClient(discovery).Namesakes(ctx, &machinev1.NamesakesRequest{Id: proxy.ID})
	for _, s := range answer.GetNamesakes() {
		if s.GetAddress() != proxy.IP && !slices.Contains(proxy.OtherIPs, s.GetAddress()) { // or it is this machine's own, from before
			others = append(others, fmt.Sprintf("%s at %s (%s)", s.GetGroup(), s.GetAddress(), s.GetEntry()))
		}
	}
	return proxy.ID, others, err
}

// Alone returns the hosts that this machine alone takes requests for, as far as discovery knows. An
// older discovery does not say.
func (m *Machine) Alone(ctx context.Context, who *member.Member, discovery grpc.ClientConnInterface) (hosts []string, err error) {
	proxy, err := m.Proxy(who)
	if err != nil {
		return nil, err
	}
	answer, err := machinev1.NewMachineServiceClient(discovery).Namesakes(ctx, &machinev1.NamesakesRequest{Id: proxy.ID})
	if said := status.Convert(err); said.Code() == codes.Unimplemented {
		return nil, nil
	} else if err != nil {
		return nil, errors.New(said.Message())
	}
	for _, s := range answer.GetNamesakes() {
		if s.GetAddress() == proxy.IP || slices.Contains(proxy.OtherIPs, s.GetAddress()) {
			hosts = append(hosts, s.GetAlone()...)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}
