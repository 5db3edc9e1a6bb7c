package join_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

const cart = "spiffe://mesh.example/ns/shop/sa/cart"

func start(t *testing.T) *jointest.Discovery {
	t.Helper()
	return jointest.New(t, "mesh.example", time.Hour)
}

func options(t *testing.T) membership.Options {
	t.Helper()
	return membership.Options{Folder: filepath.Join(t.TempDir(), "state"), Is: join.IsMachine}
}

func TestAMachineJoinsByTokenAndRenewsByItsCertificate(t *testing.T) {
	t.Parallel()
	d := start(t)
	m, err := membership.Join(t.Context(), options(t), join.ByToken([]string{d.Address}, d.Token("shop", "cart", 1, 0)))
	require.NoError(t, err)
	state := m.Current()
	require.Equal(t, cart, state.ID.String())
	require.Equal(t, "mesh.example", state.Trust.Domain)
	require.Equal(t, d.Roots(), authority.EncodeCertificates(state.Trust.Roots...))

	granted, err := join.ByCertificate(connect(t, d.Address, m), "")(t.Context(), request(t))
	require.NoError(t, err)
	chain, err := authority.ParseCertificates(granted.Chain)
	require.NoError(t, err)
	peer, err := state.Trust.Verify(chain, x509.ExtKeyUsageServerAuth)
	require.NoError(t, err)
	require.Equal(t, cart, peer.ID.String())
	require.Len(t, peer.Chain, 3)
}

func connect(t *testing.T, address string, m *membership.Membership) *upstream.Upstream {
	t.Helper()
	u, err := upstream.Dial(upstream.Options{Addresses: []string{address}, Credentials: upstream.Member(m)})
	require.NoError(t, err)
	t.Cleanup(u.Close)
	return u
}

func request(t *testing.T) []byte {
	t.Helper()
	key, err := authority.NewKey()
	require.NoError(t, err)
	text, err := authority.NewRequest(key)
	require.NoError(t, err)
	return text
}

func TestAMachineJoinsByAWebToken(t *testing.T) {
	t.Parallel()
	d := start(t)
	roots, err := authority.ParseCertificates(d.Roots())
	require.NoError(t, err)
	m, err := membership.Join(t.Context(), options(t), join.ByWebToken([]string{d.Address}, roots, func() (string, error) { return jointest.WebToken, nil }))
	require.NoError(t, err)
	require.Equal(t, cart, m.Current().ID.String())

	_, err = membership.Join(t.Context(), options(t), join.ByWebToken([]string{d.Address}, roots, func() (string, error) { return "", errors.New("no file") }))
	require.ErrorContains(t, err, "no file")
	stranger, err := authority.ParseCertificates(start(t).Roots())
	require.NoError(t, err)
	_, err = membership.Join(t.Context(), options(t), join.ByWebToken([]string{d.Address}, stranger, func() (string, error) { return jointest.WebToken, nil }))
	require.ErrorIs(t, err, membership.ErrUntrusted)
	require.ErrorContains(t, err, "it is of another mesh, or the mesh's roots have changed")
}

func TestRefusalSaysWhatToDo(t *testing.T) {
	t.Parallel()
	d := start(t)
	used := d.Token("shop", "cart", 1, 0)
	_, err := membership.Join(t.Context(), options(t), join.ByToken([]string{d.Address}, used))
	require.NoError(t, err)
	foreign, err := jointoken.New(d.Signer().Root())
	require.NoError(t, err)
	for want, token := range map[string]jointoken.Token{
		"the token was used already (if that was not you":  used,
		"(have another made with mcp-client token create)": d.Token("shop", "cart", 1, identityv1.Refusal_REFUSAL_TOKEN_EXPIRED),
		"(ask who gave it to you for another)":             d.Token("shop", "cart", 1, identityv1.Refusal_REFUSAL_TOKEN_REVOKED),
		"nobody knows this token":                          foreign,
	} {
		_, err := membership.Join(t.Context(), options(t), join.ByToken([]string{d.Address}, token))
		refused := &join.RefusedError{}
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), token.Text()[12:24])
	}
}

// eavesdropper is a stranger's server. told is set when it receives a call, and so a token.
type eavesdropper struct {
	mu   sync.Mutex
	told bool
}

func (e *eavesdropper) serve(t *testing.T, config *tls.Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	options := []grpc.ServerOption{grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.told = true
		return nil
	})}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	server := grpc.NewServer(options...)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func TestTokenIsSentToNobodyElse(t *testing.T) {
	t.Parallel()
	d, other := start(t), certtest.NewAuthority(t)
	token := d.Token("shop", "cart", 1, 0)
	id := "spiffe://mesh.example/pgmesh/discovery/eu-1"
	early := other.Issue(func(c *x509.Certificate) {
		c.NotBefore = time.Now().Add(time.Hour)
		c.NotAfter = c.NotBefore.Add(time.Hour)
	}, id)
	roots, err := authority.ParseCertificates(other.PEM)
	require.NoError(t, err)
	byToken := func(address string) membership.Ask { return join.ByToken([]string{address}, token) }
	byRoots := func(address string) membership.Ask {
		return join.ByWebToken([]string{address}, roots, func() (string, error) { return jointest.WebToken, nil })
	}
	for _, c := range []struct {
		want string
		tls  *tls.Config
		ask  func(string) membership.Ask
	}{
		{"leads to none of the roots that the join token names", shows(t, other.Issue(nil, id)), byToken},
		{"it is spiffe://mesh.example/ns/shop/sa/cart, and has to be a discovery", shows(t, other.Issue(nil, cart)), byRoots},
		{"has 0 URIs", shows(t, other.Issue(nil)), byRoots},
		{"Set the clock of this machine, or of the other", shows(t, early), byRoots},
		{"does not speak TLS: is it a discovery that runs with --insecure?", nil, byToken},
	} {
		e := &eavesdropper{}
		_, err := membership.Join(t.Context(), options(t), c.ask(e.serve(t, c.tls)))
		require.ErrorContains(t, err, c.want)
		require.False(t, e.told)
	}
}

func shows(t *testing.T, pair certtest.Pair) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{pair.Certificate(t)}}
}

func TestErrorNamesAServerThatIsNoDiscovery(t *testing.T) {
	t.Parallel()
	d, other := start(t), certtest.NewAuthority(t)
	roots, err := authority.ParseCertificates(other.PEM)
	require.NoError(t, err)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	_, err = membership.Join(t.Context(), options(t), join.ByToken([]string{listener.Addr().String()}, d.Token("shop", "cart", 1, 0)))
	require.ErrorIs(t, err, join.ErrUnreachable)
	require.ErrorContains(t, err, "connection refused")

	listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(shows(t, other.Issue(nil, "spiffe://mesh.example/pgmesh/discovery/a")))))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	_, err = membership.Join(t.Context(), options(t),
		join.ByWebToken([]string{listener.Addr().String()}, roots, func() (string, error) { return jointest.WebToken, nil }))
	require.ErrorContains(t, err, "gives no certificate: is it a discovery")
}

// lines sends each line of a log on a channel.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestFollowLogsWhyTrustDoesNotArrive(t *testing.T) {
	t.Parallel()
	d := start(t)
	m, err := membership.Join(t.Context(), options(t), join.ByToken([]string{d.Address}, d.Token("shop", "cart", 1, 0)))
	require.NoError(t, err)
	other := certtest.NewAuthority(t)
	silent := connect(t, (&eavesdropper{}).serve(t, shows(t, other.Issue(nil, "spiffe://mesh.example/pgmesh/discovery/eu-1"))), m)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	said := make(lines, 100)
	wait.Go(func() { _ = join.Follow(ctx, silent, m, slog.New(slog.NewTextHandler(said, nil))) })
	t.Cleanup(func() { cancel(); wait.Wait() })
	line := <-said
	require.Contains(t, line, "changes of what the mesh trusts do not get here")
	require.Contains(t, line, "it is of another mesh, or the mesh's roots have changed while this machine was away")
}

func TestFollowAppliesTrust(t *testing.T) {
	t.Parallel()
	d := start(t)
	m, err := membership.Join(t.Context(), options(t), join.ByToken([]string{d.Address}, d.Token("shop", "cart", 1, 0)))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	u := connect(t, d.Address, m)
	wait.Go(func() { _ = join.Follow(ctx, u, m, slog.New(slog.DiscardHandler)) })
	t.Cleanup(func() { cancel(); wait.Wait() })

	await(t, m, func(s *membership.State) bool { return len(s.Trust.Message().GetActiveRoot()) > 0 })
	d.Federate("other.example", start(t).Roots())
	await(t, m, func(s *membership.State) bool {
		return len(s.Trust.RootsOf(spiffeid.RequireTrustDomainFromString("other.example"))) == 1
	})
	d.Rotate()
	await(t, m, func(s *membership.State) bool { return len(s.Trust.Roots) == 2 })
}

func await(t *testing.T, m *membership.Membership, is func(*membership.State) bool) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		s := m.Current()
		if is(s) {
			return
		}
		select {
		case <-s.Replaced():
		case <-timeout:
			t.Fatal("it did not come about")
		}
	}
}

func TestIsMachineRefusesServers(t *testing.T) {
	t.Parallel()
	require.NoError(t, join.IsMachine(spiffeid.RequireFromString(cart)))
	require.ErrorContains(t, join.IsMachine(spiffeid.RequireFromString("spiffe://mesh.example/pgmesh/discovery/a")), "is no machine's identity")
}
