package serve

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/register"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// alive detects an mcp-server that is gone without a word.
var alive = grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second})

// machines registers machines at mcp-server.
type machines struct{ *register.Service }

func (o *Options) machines(who mode, g guests, metrics prometheus.Registerer) machines {
	name, _ := o.Identity.names()
	config := register.Config{Name: name, Who: g.machine, Log: o.Log, Metrics: metrics}
	if conn := who.server(); conn != nil {
		config.Server = machinev1.NewRegistryServiceClient(conn)
	}
	return machines{register.New(config)}
}

// following also tells machines of each mesh that proxies are brought to.
func (m machines) following(update func(*mesh.Mesh, configstore.Step)) func(*mesh.Mesh, configstore.Step) {
	return func(built *mesh.Mesh, step configstore.Step) {
		update(built, step)
		m.Follow(built, step)
	}
}

// machine returns who calls, by its certificate.
func (m *members) machine(ctx context.Context) (*register.Caller, error) {
	member, err := m.door.Machine(ctx)
	if err != nil {
		return nil, err
	}
	return &register.Caller{
		Namespace: member.Workload.Namespace, ServiceAccount: member.Workload.ServiceAccount, Enrolment: member.Enrolment,
		ShutOut: func() bool { return m.keeper.State().Standing(member) != nil },
	}, nil
}
