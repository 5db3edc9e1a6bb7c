package sds

import (
	"context"
	"slices"
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
)

const typeURL = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

// stream is what an Envoy subscribes to, and what it was sent.
type stream struct {
	server *Server
	names  map[string]bool
	sent   map[string]string // versions by name
	nonce  int
}

func (s *Server) stream() *stream {
	return &stream{server: s, names: map[string]bool{}, sent: map[string]string{}}
}

func (st *stream) nextNonce() string {
	st.nonce++
	return strconv.Itoa(st.nonce)
}

func (st *stream) subscribe(name string) {
	st.names[name] = true
	st.server.files.add(name)
}

// unsubscribe forgets that a secret was sent, so that it is sent again on the next subscription.
func (st *stream) unsubscribe(name string) {
	delete(st.names, name)
	delete(st.sent, name)
}

// logRefusal logs a NACK. The secret is not resent until it changes.
func (st *stream) logRefusal(detail *status.Status) {
	if detail != nil {
		st.server.log.Error("Envoy cannot use a secret of this machine", "secrets", sorted(st.names), "reason", detail.GetMessage())
	}
}

func sorted(names map[string]bool) []string {
	out := make([]string, 0, len(names))
	for name := range names {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// receive sends requests on a channel until the stream ends. It closes ended then, unless the
// context ends first.
func receive[T any](ctx context.Context, recv func() (T, error)) (requests chan T, ended chan struct{}) {
	requests, ended = make(chan T), make(chan struct{})
	go func() {
		for {
			r, err := panics.Receive(recv)
			if err != nil {
				close(ended)
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	return requests, ended
}

// serve sends subscribed secrets that changed, and applies requests, until the stream ends.
func serve[T any](ctx context.Context, st *stream, recv func() (T, error), take func(T), send func(map[string]secret) error) error {
	requests, ended := receive(ctx, recv)
	for {
		found, changed := st.server.get(st.names)
		for name, s := range found {
			if st.sent[name] == s.version {
				delete(found, name)
			}
		}
		if len(found) > 0 {
			if err := send(found); err != nil {
				return err
			}
			for name, s := range found {
				st.sent[name] = s.version
			}
		}
		select {
		case r := <-requests:
			take(r)
		case <-changed:
		case <-ended:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// StreamSecrets serves the SotW form: each response has all subscribed secrets.
func (s *Server) StreamSecrets(rpc secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	st := s.stream()
	take := func(r *discoveryv3.DiscoveryRequest) {
		st.logRefusal(r.GetErrorDetail())
		if nonce := r.GetResponseNonce(); nonce != "" && nonce != strconv.Itoa(st.nonce) {
			return // about an earlier response: another request follows
		}
		for name := range st.names {
			if !slices.Contains(r.GetResourceNames(), name) {
				st.unsubscribe(name)
			}
		}
		for _, name := range r.GetResourceNames() {
			st.subscribe(name)
		}
	}
	send := func(map[string]secret) error {
		all, _ := s.get(st.names)
		answer := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, Nonce: st.nextNonce()}
		for _, name := range sorted(st.names) {
			if have, known := all[name]; known {
				answer.Resources = append(answer.Resources, have.body)
				answer.VersionInfo = newest(answer.GetVersionInfo(), have.version)
			}
		}
		return rpc.Send(answer)
	}
	return serve(rpc.Context(), st, rpc.Recv, take, send)
}

// newest returns the later of two versions with the same prefix.
func newest(a, b string) string {
	if len(a) > len(b) || (len(a) == len(b) && a > b) {
		return a
	}
	return b
}

// DeltaSecrets serves the delta form: each response has the secrets that changed.
func (s *Server) DeltaSecrets(rpc secretv3.SecretDiscoveryService_DeltaSecretsServer) error {
	st := s.stream()
	take := func(r *discoveryv3.DeltaDiscoveryRequest) {
		st.logRefusal(r.GetErrorDetail())
		for _, name := range r.GetResourceNamesUnsubscribe() {
			st.unsubscribe(name)
		}
		for _, name := range r.GetResourceNamesSubscribe() {
			st.unsubscribe(name)
			st.subscribe(name)
			if held := r.GetInitialResourceVersions()[name]; held != "" {
				st.sent[name] = held
			}
		}
	}
	send := func(found map[string]secret) error {
		answer := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: st.nextNonce()}
		for name, have := range found {
			answer.Resources = append(answer.Resources, &discoveryv3.Resource{Name: name, Version: have.version, Resource: have.body})
		}
		return rpc.Send(answer)
	}
	return serve(rpc.Context(), st, rpc.Recv, take, send)
}

// FetchSecrets answers a single request.
func (s *Server) FetchSecrets(_ context.Context, r *discoveryv3.DiscoveryRequest) (*discoveryv3.DiscoveryResponse, error) {
	st := s.stream()
	for _, name := range r.GetResourceNames() {
		st.subscribe(name)
	}
	found, _ := s.get(st.names)
	answer := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, Resources: []*anypb.Any{}}
	for _, name := range sorted(st.names) {
		if have, known := found[name]; known {
			answer.Resources = append(answer.Resources, have.body)
			answer.VersionInfo = newest(answer.GetVersionInfo(), have.version)
		}
	}
	return answer, nil
}
