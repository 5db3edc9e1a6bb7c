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
type machines struct {
	*register.Service

	own *grpc.ClientConn // nil if the connection is shared
}

func (o *Options) machines(who *self, m *members, metrics prometheus.Registerer) (*machines, error) {
	name, _ := o.Identity.names()
	config := register.Config{Name: name, Log: o.Log, Metrics: metrics}
	out := &machines{}
	switch servers := o.Sources.MCP.Addresses; {
	case m != nil:
		config.Who = m.machine
		if who.conn != nil {
			config.Server = machinev1.NewRegistryServiceClient(who.conn)
		}
	case len(servers) > 0:
		connection, err := o.Sources.MCP.connection(o.Plaintext, nil, o.Log)
		if err != nil {
			return nil, err
		}
		if out.own, err = dialServers(servers, append(connection.DialOptions(), alive)...); err != nil {
			return nil, err
		}
		config.Server = machinev1.NewRegistryServiceClient(out.own)
	}
	out.Service = register.New(config)
	return out, nil
}

// following also tells machines of each mesh that proxies are brought to.
func (m *machines) following(update func(*mesh.Mesh, configstore.Step)) func(*mesh.Mesh, configstore.Step) {
	return func(built *mesh.Mesh, step configstore.Step) {
		update(built, step)
		m.Follow(built, step)
	}
}

func (m *machines) close() {
	if m.own != nil {
		_ = m.own.Close() // nobody uses it any more
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
