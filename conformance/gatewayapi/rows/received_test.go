package rows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// received is what a proxy was sent: its resources, by type and name.
type received struct {
	mu  sync.Mutex
	all map[string]proto.Message
	bad error
}

// follow connects a proxy until the test ends: a gateway for the Gateway of this name, or a sidecar
// if the name is "".
func follow(t *testing.T, discovery, namespace, gateway string, number int) *received {
	t.Helper()
	r := &received{all: map[string]proto.Message{}}
	kind, name, labels := "sidecar", "client", map[string]any{"app": "client"}
	if gateway != "" {
		kind, name, labels = "router", gateway, map[string]any{"gateway.networking.k8s.io/gateway-name": gateway}
	}
	metadata, err := structpb.NewStruct(map[string]any{"LABELS": labels, "NAMESPACE": namespace})
	require.NoError(t, err)
	node := &corev3.Node{Id: fmt.Sprintf("%s~10.99.%d.%d~%s.%s~%s.svc.cluster.local", kind, number/250, number%250+1, name, namespace, namespace), Metadata: metadata}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- proxy.Run(ctx, proxy.Options{Address: discovery, Node: node, Heard: r.hear, Served: func(time.Time) {}})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-over)
	})
	return r
}

// hear keeps a response in the state of the world: all clusters and listeners are in each of theirs.
func (r *received) hear(response proxy.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var d discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(response.Bytes, &d); err != nil {
		r.bad = err
		return
	}
	if response.Type == proxy.Clusters || response.Type == proxy.Listeners {
		maps.DeleteFunc(r.all, func(name string, _ proto.Message) bool { return typeOf(name) == d.GetTypeUrl() })
	}
	for _, resource := range d.GetResources() {
		m, err := resource.UnmarshalNew()
		if err != nil {
			r.bad = err
			return
		}
		r.all[resource.GetTypeUrl()+" "+nameOf(m)] = m
	}
}

// typeOf is the type in the key of a resource.
func typeOf(name string) string {
	of, _, _ := strings.Cut(name, " ")
	return of
}

// nameOf is the name of a resource of Envoy's.
func nameOf(m proto.Message) string {
	fields := m.ProtoReflect().Descriptor().Fields()
	for _, name := range []string{"name", "cluster_name"} {
		if f := fields.ByTextName(name); f != nil {
			return m.ProtoReflect().Get(f).String()
		}
	}
	return ""
}

// differs says where two proxies differ in what they have; nil if they have the same.
func (r *received) differs(other *received) error {
	ours, theirs := r.now(), other.now()
	if err := errors.Join(r.failed(), other.failed()); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if theirs[name] == nil {
			return fmt.Errorf("rows alone have %s", name)
		}
		if !proto.Equal(ours[name], theirs[name]) {
			return fmt.Errorf("%s differs:\n%s", name, cmp.Diff(prototext.Format(ours[name]), prototext.Format(theirs[name])))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if ours[name] == nil {
			return fmt.Errorf("Kubernetes alone has %s", name)
		}
	}
	return nil
}

// failed says what could not be read.
func (r *received) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

func (r *received) now() map[string]proto.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.all)
}
