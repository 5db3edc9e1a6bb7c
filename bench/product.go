package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
)

const host = "bench.mesh"

// product changes one route of a mesh in Postgres.
type product struct {
	conn    *pgx.Conn
	backend *httptest.Server
	port    int // of the service, on which Envoy listens
	client  *http.Client
}

func newProduct(ctx context.Context, database string) (*product, error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	p := &product{conn: conn, client: realenvoy.Client(), backend: realenvoy.Backend()}
	p.port, err = realenvoy.FreePort()
	if err != nil {
		return nil, err
	}
	return p, p.define(ctx)
}

// define creates one service with one route.
func (p *product) define(ctx context.Context) error {
	_, backend, err := net.SplitHostPort(p.backend.Listener.Addr().String())
	if err != nil {
		return err
	}
	_, err = p.conn.Exec(ctx, fmt.Sprintf(`
		INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES
		('networking.istio.io', 'ServiceEntry', 'bench', 'bench', '{
			"hosts": ["%[1]s"], "location": "MESH_INTERNAL", "resolution": "STATIC",
			"ports": [{"number": %[2]d, "name": "http", "protocol": "HTTP"}],
			"endpoints": [{"address": "127.0.0.1", "ports": {"http": %[3]s}}]}'),
		('networking.istio.io', 'VirtualService', 'bench', 'bench', '{
			"hosts": ["%[1]s"],
			"http": [{"route": [{"destination": {"host": "%[1]s"}}], "headers": {"response": {"set": {"%[4]s": "none"}}}}]}')`,
		host, p.port, backend, ruleHeader))
	return err
}

// change makes the route answer with a number.
func (p *product) change(ctx context.Context, number int) (sample, error) {
	timing.Settle()
	tx, err := p.conn.Begin(ctx)
	if err != nil {
		return sample{}, err
	}
	_, err = tx.Exec(ctx, `
		UPDATE mesh.resources SET spec = jsonb_set(spec, ARRAY['http', '0', 'headers', 'response', 'set', $1], to_jsonb($2::text))
		WHERE kind = 'VirtualService' AND namespace = 'bench' AND name = 'bench'`, ruleHeader, strconv.Itoa(number))
	if err != nil {
		return sample{}, err
	}
	return measure(ctx, tx, p.client, host, fmt.Sprintf("127.0.0.1:%d", p.port), number)
}

// routes gets Envoy's route configuration from discovery, so that the floor can push the same.
func (p *product) routes(ctx context.Context, xds string) (*routev3.RouteConfiguration, error) {
	conn, err := grpc.NewClient(xds, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	node, err := envoyNode()
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{
		Node: node, TypeUrl: routeType, ResourceNames: []string{strconv.Itoa(p.port)},
	}); err != nil {
		return nil, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	routes := &routev3.RouteConfiguration{}
	return routes, answer.GetResources()[0].UnmarshalTo(routes)
}

func (p *product) close() {
	p.backend.Close()
	p.conn.Close(context.Background())
}

const routeType = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"

// setRule changes a route configuration like the product's change.
func setRule(routes *routev3.RouteConfiguration, number int) {
	for _, vh := range routes.GetVirtualHosts() {
		for _, r := range vh.GetRoutes() {
			for _, h := range r.GetResponseHeadersToAdd() {
				if h.GetHeader().GetKey() == ruleHeader {
					h.Header = &corev3.HeaderValue{Key: ruleHeader, Value: strconv.Itoa(number)}
				}
			}
		}
	}
}
