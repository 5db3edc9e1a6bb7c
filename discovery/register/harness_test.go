package register_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/register"
	"github.com/pgmesh/pgmesh/kinds"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const limit = 10 * time.Second

// batch is a message of changes that the registry received.
type batch struct {
	at      time.Time
	session int
	changes []*machinev1.Change
}

// registry is an mcp-server, as far as sessions of discoveries go. Tests decide the outcomes.
type registry struct {
	machinev1.UnimplementedRegistryServiceServer

	t       *testing.T
	address string
	batches chan batch

	mu       sync.Mutex
	sessions int
	outcome  func(*machinev1.Change) *machinev1.Outcome
	hold     chan struct{} // answers wait until it is closed; nil for no wait
	stop     func()
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{t: t, batches: make(chan batch, 1000), outcome: func(c *machinev1.Change) *machinev1.Outcome {
		if c.GetState() != machinev1.Change_STATE_HERE {
			return &machinev1.Outcome{}
		}
		return &machinev1.Outcome{Entry: c.GetService().GetGroup() + "-" + c.GetMachine()}
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.address = l.Addr().String()
	r.serve(l)
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *registry) serve(l net.Listener) {
	server := grpc.NewServer()
	machinev1.RegisterRegistryServiceServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	r.stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-served; !errors.Is(err, grpc.ErrServerStopped) {
			require.NoError(r.t, err)
		}
	})
}

func (r *registry) start() {
	r.t.Helper()
	l, err := net.Listen("tcp", r.address)
	require.NoError(r.t, err)
	r.serve(l)
}

// decide sets the outcomes of changes from now on.
func (r *registry) decide(outcome func(*machinev1.Change) *machinev1.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome = outcome
}

// holds makes answers wait until release is called.
func (r *registry) holds() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hold := make(chan struct{})
	r.hold = hold
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hold = nil
		close(hold)
	}
}

func (r *registry) Keep(stream machinev1.RegistryService_KeepServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetDiscovery() != "eu-1" {
		return status.Error(codes.InvalidArgument, "who is it?")
	}
	r.mu.Lock()
	r.sessions++
	session := r.sessions
	r.mu.Unlock()
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		r.batches <- batch{time.Now(), session, request.GetChanges()}
		r.mu.Lock()
		hold, outcome := r.hold, r.outcome
		r.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-stream.Context().Done():
				return stream.Context().Err()
			}
		}
		answer := &machinev1.KeepResponse{Number: request.GetNumber()}
		for _, c := range request.GetChanges() {
			answer.Outcomes = append(answer.Outcomes, outcome(c))
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// next returns the next batch.
func (r *registry) next() batch {
	r.t.Helper()
	select {
	case b := <-r.batches:
		return b
	case <-time.After(limit):
		require.FailNow(r.t, "nothing is reported")
		return batch{}
	}
}

// one returns the next batch, which has a single change.
func (r *registry) one() *machinev1.Change {
	r.t.Helper()
	b := r.next()
	require.Len(r.t, b.changes, 1)
	return b.changes[0]
}

// discovery is a register.Service with its configuration.
type discovery struct {
	*registry

	service *register.Service
	at      string
	conn    *grpc.ClientConn
	config  *configstore.Store
	mesh    *mesh.Mesh
	now     time.Time
	shutOut atomic.Bool
}

// named stands for the certificates of callers: their headers.
func (d *discovery) named(ctx context.Context) (*register.Caller, error) {
	m, _ := metadata.FromIncomingContext(ctx)
	if len(m.Get("account")) == 0 {
		return nil, status.Error(codes.Unauthenticated, "no certificate")
	}
	return &register.Caller{
		Namespace: "shop", ServiceAccount: m.Get("account")[0], Enrolment: "e-" + m.Get("account")[0], ShutOut: d.shutOut.Load,
	}, nil
}

// start starts a discovery with the groups cart and ads, which have no probes.
func start(t *testing.T, secure bool) *discovery {
	t.Helper()
	d := startEmpty(t, secure)
	d.apply(group + "---" + strings.ReplaceAll(group, "cart", "ads"))
	return d
}

// startEmpty starts one that has no configuration yet.
func startEmpty(t *testing.T, secure bool) *discovery {
	t.Helper()
	d := &discovery{registry: newRegistry(t), config: configstore.New(), now: time.Unix(1, 0)}
	toRegistry, err := grpc.NewClient(d.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	cfg := register.Config{Server: machinev1.NewRegistryServiceClient(toRegistry), Name: "eu-1", Who: register.AsItSays, Metrics: prometheus.NewRegistry()}
	if secure {
		cfg.Who = d.named
	}
	d.service = register.New(cfg)
	server := grpc.NewServer()
	d.service.AddTo(server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d.at = l.Addr().String()
	d.conn, err = grpc.NewClient(d.at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	running.Go(func() { _ = d.service.Run(ctx) })
	t.Cleanup(func() {
		d.service.Shutdown()
		server.GracefulStop()
		cancel()
		running.Wait()
		require.NoError(t, d.conn.Close())
		require.NoError(t, toRegistry.Close())
	})
	return d
}

// apply adds documents to the configuration, and removes those that are named.
func (d *discovery) apply(documents string, without ...kinds.Key) {
	d.t.Helper()
	parsed, err := kinds.Parse("test.yaml", []byte(documents))
	require.NoError(d.t, err)
	var b kinds.Batch
	add := func(key kinds.Key, r *kinds.Resource) {
		b.Changes = append(b.Changes, kinds.Change{Key: key, Resource: r})
	}
	for _, p := range parsed {
		d.now = d.now.Add(time.Second)
		p.Resource.CreateTime = d.now
		add(p.Resource.Key(), p.Resource)
	}
	for _, key := range without {
		add(key, nil)
	}
	b.Revision = d.config.Snapshot().Revision + 1
	step := d.config.Apply(b)
	d.mesh = mesh.Build(step, d.mesh)
	d.service.Follow(d.mesh, step)
}

// shown is the page for people.
func (d *discovery) shown() string {
	w := httptest.NewRecorder()
	d.service.Page().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/machines", nil))
	return w.Body.String()
}

// machine is the stream of a machine.
type machine struct {
	machinev1.MachineService_RegisterClient

	t      *testing.T
	cancel context.CancelFunc
}

// since is later for each machine of the tests.
var since atomic.Int64

func described(id string, groups ...string) *machinev1.Machine {
	m := &machinev1.Machine{Id: id, Namespace: "shop", Since: since.Add(1), Address: "10.0.0.7"}
	for _, g := range groups {
		m.Services = append(m.Services, &machinev1.Service{Group: g, Health: machinev1.Health_HEALTH_HEALTHY})
	}
	return m
}

// connect opens a stream under an account, and describes a machine.
func (d *discovery) connect(account string, m *machinev1.Machine) *machine {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(d.t.Context(), "account", account), limit)
	stream, err := machinev1.NewMachineServiceClient(d.conn).Register(ctx)
	require.NoError(d.t, err)
	if m != nil {
		require.NoError(d.t, stream.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Machine{Machine: m}}))
	}
	d.t.Cleanup(cancel)
	return &machine{stream, d.t, cancel}
}

func (m *machine) report(group string, health machinev1.Health, detail string) {
	m.t.Helper()
	require.NoError(m.t, m.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Health{
		Health: &machinev1.HealthReport{Group: group, Health: health, Detail: detail},
	}}))
}

func (m *machine) leave() {
	m.t.Helper()
	require.NoError(m.t, m.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Leaving{Leaving: &machinev1.Leaving{}}}))
}

// told returns the next answer.
func (m *machine) told() *machinev1.RegisterResponse {
	m.t.Helper()
	answer, err := m.Recv()
	require.NoError(m.t, err)
	return answer
}

// registered returns the entry in the next answer.
func (m *machine) registered() string {
	m.t.Helper()
	answer := m.told()
	require.NotNil(m.t, answer.GetRegistered(), answer)
	return answer.GetRegistered().GetEntry()
}

// ends returns how the stream ends, whatever comes before.
func (m *machine) ends() *status.Status {
	m.t.Helper()
	for {
		if _, err := m.Recv(); err != nil {
			return status.Convert(err)
		}
	}
}
