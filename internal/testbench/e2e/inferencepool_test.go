package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"
)

// picker chooses endpoints as requests ask for: by X-Pick in a header, by X-Pick-Quietly in metadata. A
// request that asks for nothing goes on without a choice, and one for "full" is answered with 429.
type picker struct {
	extprocv3.UnimplementedExternalProcessorServer

	port string
	stop func()

	mu     sync.Mutex
	served []string // the endpoints that have answered, as Envoy says
}

const chosenEndpoint = "x-gateway-destination-endpoint"

func newPicker(t testing.TB) *picker {
	t.Helper()
	l := listen(t)
	p := &picker{port: portOf(t, l)}
	server, served := grpc.NewServer(), make(chan error, 1)
	extprocv3.RegisterExternalProcessorServer(server, p)
	go func() { served <- server.Serve(l) }()
	p.stop = func() {
		server.Stop()
		require.NoError(t, <-served)
	}
	t.Cleanup(server.Stop)
	return p
}

// Process is about one request and its answer.
func (p *picker) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.Send(p.answer(in)); err != nil {
			return err
		}
	}
}

// answer lets everything pass as it is, but for the choice.
func (p *picker) answer(in *extprocv3.ProcessingRequest) *extprocv3.ProcessingResponse {
	switch of := in.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		return choose(of.RequestHeaders)
	case *extprocv3.ProcessingRequest_RequestBody:
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: passed(of.RequestBody)}}
	case *extprocv3.ProcessingRequest_RequestTrailers:
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocv3.TrailersResponse{}}}
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		by := in.GetMetadataContext().GetFilterMetadata()["envoy.lb"].GetFields()[chosenEndpoint+"-served"].GetStringValue()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.served = append(p.served, by)
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{}}}
	case *extprocv3.ProcessingRequest_ResponseBody:
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: passed(of.ResponseBody)}}
	default:
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocv3.TrailersResponse{}}}
	}
}

func passed(body *extprocv3.HttpBody) *extprocv3.BodyResponse {
	return &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
		StreamedResponse: &extprocv3.StreamedBodyResponse{Body: body.GetBody(), EndOfStream: body.GetEndOfStream()},
	}}}}
}

func choose(of *extprocv3.HttpHeaders) *extprocv3.ProcessingResponse {
	asked := map[string]string{}
	for _, h := range of.GetHeaders().GetHeaders() {
		asked[h.GetKey()] = string(h.GetRawValue())
	}
	if asked["x-pick"] == "full" {
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
			ImmediateResponse: &extprocv3.ImmediateResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode_TooManyRequests}},
		}}
	}
	out, common := &extprocv3.ProcessingResponse{}, &extprocv3.CommonResponse{ClearRouteCache: true}
	if to := asked["x-pick"]; to != "" {
		common.HeaderMutation = &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: chosenEndpoint, RawValue: []byte(to)}}}}
	}
	if to := asked["x-pick-quietly"]; to != "" {
		out.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			"envoy.lb": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{chosenEndpoint: structpb.NewStringValue(to)}}),
		}}
	}
	out.Response = &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{Response: common}}
	return out
}

// service is the ServiceEntry of the picker.
func (p *picker) service() string {
	return entry("picker.mesh", "GRPC", "grpc", "9002", []string{endpoint("picker", "grpc", p.port)})
}

// inferencePool is a pool of what listens on ports of this machine, with the picker of the namespace.
func inferencePool(failureMode string, of ...*backend) string {
	ports := make([]string, len(of))
	for i, b := range of {
		ports[i] = "{number: " + b.port + "}"
	}
	return fmt.Sprintf(`
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: llama}
spec:
  selector: {matchLabels: {model: llama}}
  targetPorts: [%s]
  endpointPickerRef: {group: networking.istio.io, kind: ServiceEntry, name: picker, port: {number: 9002}, failureMode: %s}
`, strings.Join(ports, ", "), failureMode)
}

const (
	modelServer = `
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: gpu, labels: {model: llama}}
spec: {address: 127.0.0.1}
`
	toPool = "{group: inference.networking.k8s.io, kind: InferencePool, name: llama}"
	models = "models.example.com"
)

// at is where a backend listens.
func (b *backend) at() string { return address(b.port) }

// picks is a request whose endpoint the picker is to choose.
func picks(to string) request { return request{host: models, header: http.Header{"X-Pick": {to}}} }

// newPool creates a namespace with a gateway whose route leads to a pool of some backends.
func newPool(t testing.TB, failureMode string, of ...*backend) (*mesh, *picker) {
	t.Helper()
	m, p, port := newAPIGateway(t), newPicker(t), newPort(t)
	m.commit(p.service(), modelServer, inferencePool(failureMode, of...), listening("{name: http, port: "+port+", protocol: HTTP}"),
		httpRoute("models", "{name: edge}", models, "{backendRefs: ["+toPool+"]}"))
	m.port = port
	m.picked(of[0])
	return m, p
}

// picked waits until requests go to the backend that the picker chooses.
func (m *mesh) picked(b *backend) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		a, err := m.ask(ctx, picks(b.at()))
		if err != nil {
			return err
		}
		return a.from(b.name)
	})
}

func TestAPickerChoosesTheEndpointOfEachRequest(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	a, b := newBackend(t, "a", nil), newBackend(t, "b", func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
			bodies <- string(body)
		}
		return false
	})
	stranger := newBackend(t, "stranger", nil)
	m, p := newPool(t, "FailClose", a, b)

	for range 5 {
		require.NoError(t, m.must(picks(b.at())).from("b"))
		require.NoError(t, m.must(picks(a.at())).from("a"))
		require.NoError(t, m.must(request{host: models, header: http.Header{"X-Pick-Quietly": {b.at()}}}).from("b"))
	}
	require.NoError(t, m.must(picks(stranger.at()+","+b.at())).from("b"), "of several the first that is of the pool counts")
	require.Equal(t, http.StatusTooManyRequests, m.must(picks("full")).status)
	p.mu.Lock()
	require.Equal(t, b.at(), p.served[len(p.served)-1], "the picker is told which endpoint has answered")
	p.mu.Unlock()

	// Nothing of a request or of its answer is lost on the way through the picker.
	body := strings.Repeat("What is a mesh? ", 20_000)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address(m.port)+"/v1/completions", strings.NewReader(body))
	require.NoError(t, err)
	r.Host = models
	r.Header.Set("X-Pick", b.at())
	answered, err := m.client.Do(r)
	require.NoError(t, err)
	defer answered.Body.Close()
	require.Equal(t, http.StatusOK, answered.StatusCode)
	require.Equal(t, body, <-bodies)

	// A picker can name only endpoints of its pool, and clients choose nothing.
	require.Equal(t, http.StatusServiceUnavailable, m.must(picks(stranger.at())).status)
	require.Equal(t, http.StatusServiceUnavailable, m.must(request{host: models}).status)
	require.Equal(t, http.StatusServiceUnavailable, m.must(request{host: models, header: http.Header{chosenEndpoint: {a.at()}}}).status)
	require.Zero(t, stranger.asked.Load())

	// The pool changes.
	m.commit(inferencePool("FailClose", b, stranger))
	m.picked(stranger)
	require.Equal(t, http.StatusServiceUnavailable, m.must(picks(a.at())).status)
	require.NoError(t, m.must(picks(b.at())).from("b"))
}

func TestAPoolSaysWhatHappensWithoutItsPicker(t *testing.T) {
	t.Parallel()
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	m, p := newPool(t, "FailClose", a, b)
	p.stop()
	before := a.asked.Load() + b.asked.Load()
	for range 5 {
		require.Equal(t, http.StatusServiceUnavailable, m.must(request{host: models}).status)
	}
	require.Equal(t, before, a.asked.Load()+b.asked.Load())

	m.commit(inferencePool("FailOpen", a, b))
	eventually(t, func(ctx context.Context) error { return m.status(ctx, models, http.StatusOK) })
	m.answeredBy(models, "a", "b")

	// So it is if there never was a picker.
	m.transaction(func(tx pgx.Tx) { m.remove(tx, "ServiceEntry", "picker") })
	m.answeredBy(models, "a", "b")
	m.commit(inferencePool("FailClose", a, b))
	m.fails(models)
}

// A listener that is being drained lacks the filter by which pickers are asked: what came by it before the
// route led to a pool is not sent anywhere blindly.
func TestNothingIsSentBlindlyByAListenerThatDrains(t *testing.T) {
	t.Parallel()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	m.startAgent("--role", "gateway", "--gateway", "edge", "--drain-time", "1h")
	a, web, p, services, port := newBackend(t, "a", nil), newBackend(t, "web", nil), newPicker(t), m.port, newPort(t)
	m.commit(p.service(), modelServer, inferencePool("FailClose", a), m.service("web.mesh", web), listening("{name: http, port: "+port+", protocol: HTTP}"),
		httpRoute("models", "{name: edge}", models, "{backendRefs: ["+toHost("web.mesh", services)+"]}"))
	m.port = port
	m.answers(models, "web")
	old := m.client // its connection is one of the listener as it is now

	m.commit(httpRoute("models", "{name: edge}", models, "{backendRefs: ["+toPool+"]}"))
	eventually(t, func(ctx context.Context) error {
		answered, err := send(ctx, newClient(t), address(m.port), picks(a.at()))
		if err != nil {
			return err
		}
		return answered.from("a")
	})
	before := a.asked.Load()
	m.client = old
	eventually(t, func(ctx context.Context) error {
		answered, err := m.ask(ctx, request{host: models})
		if err == nil && answered.status != http.StatusServiceUnavailable {
			err = fmt.Errorf("answered %d", answered.status)
		}
		return err
	})
	require.Equal(t, before, a.asked.Load())
}

// Sidecars ask pickers, too, where a route of a service leads to a pool.
func TestSidecarsAskPickers(t *testing.T) {
	t.Parallel()
	m, p := newMesh(t), newPicker(t)
	a, b, web := newBackend(t, "a", nil), newBackend(t, "b", nil), newBackend(t, "web", nil)
	m.commit(p.service(), modelServer, inferencePool("FailClose", a, b), m.service("web.mesh", web))
	m.answers("web.mesh", "web")
	m.commit(httpRoute("web", "{group: networking.istio.io, kind: ServiceEntry, name: web}", "ignored.example.com", "{backendRefs: ["+toPool+"]}"))
	eventually(t, func(ctx context.Context) error {
		answered, err := m.ask(ctx, request{host: "web.mesh", header: http.Header{"X-Pick": {b.at()}}})
		if err != nil {
			return err
		}
		return answered.from("b")
	})
	require.NoError(t, m.must(request{host: "web.mesh", header: http.Header{"X-Pick": {a.at()}}}).from("a"))
	require.Equal(t, http.StatusServiceUnavailable, m.must(request{host: "web.mesh", header: http.Header{"X-Pick": {web.at()}}}).status)
}

// A pool says how it stands at the Gateway, and what is wrong with it is among the problems.
func TestAPoolSaysHowItStands(t *testing.T) {
	t.Parallel()
	m, _ := newPool(t, "FailClose", newBackend(t, "a", nil))
	m.poolStands("edge Accepted=True:Accepted ResolvedRefs=True:ResolvedRefs")
	m.transaction(func(tx pgx.Tx) {
		m.remove(tx, "ServiceEntry", "picker")
		m.remove(tx, "WorkloadEntry", "gpu")
	})
	m.poolStands("edge Accepted=True:Accepted ResolvedRefs=False:InvalidExtensionRef")
	eventually(t, func(ctx context.Context) error {
		rows, err := m.db.Query(ctx, "SELECT DISTINCT path FROM mesh.problems WHERE kind = 'InferencePool' AND namespace = $1 ORDER BY 1", m.namespace)
		if err != nil {
			return err
		}
		paths, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if want := "spec.endpointPickerRef spec.endpointPickerRef.name spec.selector"; err == nil && strings.Join(paths, " ") != want {
			err = fmt.Errorf("problems are at %q, want %q", paths, want)
		}
		return err
	})
	m.transaction(func(tx pgx.Tx) { m.remove(tx, "HTTPRoute", "models") })
	m.poolStands("")
}

// poolStands waits for the status of the pool.
func (m *mesh) poolStands(want string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		var text string
		if err := m.db.QueryRow(ctx, "SELECT status FROM mesh.status_of('InferencePool', $1, 'llama')", m.namespace).Scan(&text); err != nil {
			return err
		}
		var status struct {
			Parents []struct {
				ParentRef  struct{ Name string }
				Conditions []struct{ Type, Status, Reason string }
			}
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return err
		}
		var is []string
		for _, p := range status.Parents {
			is = append(is, p.ParentRef.Name)
			for _, c := range p.Conditions {
				is = append(is, c.Type+"="+c.Status+":"+c.Reason)
			}
		}
		if got := strings.Join(is, " "); got != want {
			return fmt.Errorf("it stands as %q, want %q, by the status %s", got, want, text)
		}
		return nil
	})
}

// The example of docs/gateway-api.md.
func TestThePageHasAPickerChoose(t *testing.T) {
	t.Parallel()
	m, p, port := newAPIGateway(t), newPicker(t), newPort(t)
	a, b := newBackend(t, "a", nil), newBackend(t, "b", nil)
	blocks := page(t, "../../../docs/gateway-api.md", "namespace: shop", "namespace: "+m.namespace, "number: 8000", "number: "+a.port, "number: 8001", "number: "+b.port)["yaml"]
	m.commit(entry("llama-picker."+m.namespace+".svc.cluster.local", "GRPC", "grpc", "9002", []string{endpoint("picker", "grpc", p.port)}),
		modelServer, listening("{name: http, port: "+port+", protocol: HTTP}"), blockWith(t, blocks, "kind: InferencePool"))
	m.port = port
	for _, one := range []*backend{a, b} {
		to := request{host: "llama.example.com", header: http.Header{"X-Pick": {one.at()}}}
		eventually(t, func(ctx context.Context) error {
			answer, err := m.ask(ctx, to)
			if err != nil {
				return err
			}
			return answer.from(one.name)
		})
	}
}
