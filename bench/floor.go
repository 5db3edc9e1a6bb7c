package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	routeservicev3 "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
)

// floor is the minimum between a commit and Envoy: a bare table, a NOTIFY, a read, and a server
// that pushes one prepared route configuration with a new number, without waiting for any answer.
type floor struct {
	routeservicev3.UnimplementedRouteDiscoveryServiceServer
	writer, listener *pgx.Conn
	socket           net.Listener
	server           *grpc.Server
	client           *http.Client
	port             int

	routes  *routev3.RouteConfiguration
	numbers chan int
	stop    context.CancelFunc
	done    sync.WaitGroup
}

const floorChannel = "pgmesh_bench_floor"

func newFloor(ctx context.Context, database string) (*floor, error) {
	f := &floor{client: realenvoy.Client(), numbers: make(chan int, 1), server: grpc.NewServer()}
	var err error
	if f.writer, err = pgx.Connect(ctx, database); err != nil {
		return nil, err
	}
	if f.listener, err = pgx.Connect(ctx, database); err != nil {
		return nil, err
	}
	if f.socket, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if f.port, err = realenvoy.FreePort(); err != nil {
		return nil, err
	}
	if _, err := f.writer.Exec(ctx, `CREATE TABLE IF NOT EXISTS bench_floor (id int PRIMARY KEY, number int);
		INSERT INTO bench_floor VALUES (1, -1) ON CONFLICT DO NOTHING`); err != nil {
		return nil, err
	}
	_, err = f.listener.Exec(ctx, "LISTEN "+floorChannel)
	return f, err
}

func (f *floor) address() string { return f.socket.Addr().String() }

// serve starts reading and pushing.
func (f *floor) serve(routes *routev3.RouteConfiguration) {
	f.routes = routes
	routeservicev3.RegisterRouteDiscoveryServiceServer(f.server, f)
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.done.Go(func() { f.server.Serve(f.socket) })
	f.done.Go(func() { f.read(ctx) })
}

// read waits for each notification, reads the row and passes it on.
func (f *floor) read(ctx context.Context) {
	for {
		if _, err := f.listener.WaitForNotification(ctx); err != nil {
			return
		}
		var number int
		if err := f.listener.QueryRow(ctx, "SELECT number FROM bench_floor WHERE id = 1").Scan(&number); err != nil {
			return
		}
		f.numbers <- number
	}
}

// StreamRoutes pushes without reading Envoy's answers.
func (f *floor) StreamRoutes(stream routeservicev3.RouteDiscoveryService_StreamRoutesServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	for version := 0; ; version++ {
		body, err := anypb.New(proto.Clone(f.routes))
		if err != nil {
			return err
		}
		v := strconv.Itoa(version)
		if err := stream.Send(&discoveryv3.DiscoveryResponse{VersionInfo: v, Nonce: v, TypeUrl: routeType, Resources: []*anypb.Any{body}}); err != nil {
			return err
		}
		select {
		case number := <-f.numbers:
			setRule(f.routes, number)
		case <-stream.Context().Done():
			return nil
		}
	}
}

// change makes the floor's route answer with a number.
func (f *floor) change(ctx context.Context, number int) (sample, error) {
	timing.Settle()
	tx, err := f.writer.Begin(ctx)
	if err != nil {
		return sample{}, err
	}
	if _, err := tx.Exec(ctx, "UPDATE bench_floor SET number = $1 WHERE id = 1", number); err != nil {
		return sample{}, err
	}
	if _, err := tx.Exec(ctx, "NOTIFY "+floorChannel); err != nil {
		return sample{}, err
	}
	return measure(ctx, tx, f.client, host, fmt.Sprintf("127.0.0.1:%d", f.port), number)
}

func (f *floor) close() {
	if f.stop != nil {
		f.stop()
	}
	f.server.Stop()
	f.done.Wait()
	f.writer.Close(context.Background())
	f.listener.Close(context.Background())
}
