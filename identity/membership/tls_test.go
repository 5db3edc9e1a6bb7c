package membership_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

var discovery = spiffeid.RequireFromString("spiffe://mesh.example/pgmesh/discovery/eu-1")

// rootOf returns the root that a member's certificate leads to.
func rootOf(t *testing.T, m *membership.Membership) *x509.Certificate {
	t.Helper()
	s := m.Current()
	chain, err := authority.ParseCertificates(s.ChainPEM())
	require.NoError(t, err)
	peer, err := s.Trust.Verify(chain, x509.ExtKeyUsageClientAuth)
	require.NoError(t, err)
	return peer.Root()
}

// handshake connects a client with a server and returns their errors or what each learned of the
// other.
func handshake(t *testing.T, server, client *tls.Config) (seen tls.ConnectionState, ofClient, ofServer error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		s := tls.Server(conn, server)
		err = s.Handshake()
		seen = s.ConnectionState()
		done <- err
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err == nil {
		defer conn.Close()
	}
	ofClient = <-done
	return seen, ofClient, err
}

func TestMembersAuthenticateEachOther(t *testing.T) {
	t.Parallel()
	mesh := newMesh(t, "mesh.example")
	server := join(t, membership.Options{}, mesh.gives(discovery))
	machine := join(t, membership.Options{}, mesh.from(mesh.delegated, cart))
	seen, ofClient, ofServer := handshake(t, server.Server(tls.RequireAndVerifyClientCert, "h2"), machine.Client(membership.IsProgram(identity.Discovery)))
	require.NoError(t, ofServer)
	require.NoError(t, ofClient)
	require.Equal(t, cart.String(), seen.VerifiedChains[0][0].URIs[0].String())

	seen, ofClient, ofServer = handshake(t, server.Server(tls.VerifyClientCertIfGiven), membership.ByRoots(mesh.roots, identity.Discovery))
	require.NoError(t, errors.Join(ofClient, ofServer))
	require.Empty(t, seen.PeerCertificates)
	_, ofClient, _ = handshake(t, server.Server(tls.RequireAndVerifyClientCert), membership.ByRoots(mesh.roots, identity.Discovery))
	require.Error(t, ofClient)
}

func TestClientsRefuseOtherServers(t *testing.T) {
	t.Parallel()
	mesh := newMesh(t, "mesh.example")
	machine := join(t, membership.Options{}, mesh.gives(cart))
	for want, server := range map[string]*membership.Membership{
		"has to be a discovery of this mesh": machine,
		"it is spiffe://mesh.example/pgmesh/mcp-server/a": join(t, membership.Options{},
			mesh.gives(spiffeid.RequireFromString("spiffe://mesh.example/pgmesh/mcp-server/a"))),
	} {
		_, _, ofServer := handshake(t, server.Server(tls.NoClientCert), machine.Client(membership.IsProgram(identity.Discovery)))
		require.ErrorIs(t, ofServer, membership.ErrWrongServer)
		require.ErrorContains(t, ofServer, want)
	}
	foreign := join(t, membership.Options{}, newMesh(t, "mesh.example").gives(discovery))
	_, _, ofServer := handshake(t, foreign.Server(tls.NoClientCert), machine.Client(membership.IsProgram(identity.Discovery)))
	require.ErrorIs(t, ofServer, membership.ErrUntrusted)
}

// TestMachineAuthorityCannotVouchForServers signs a server's certificate with a discovery's stolen
// key.
func TestMachineAuthorityCannotVouchForServers(t *testing.T) {
	t.Parallel()
	mesh := newMesh(t, "mesh.example")
	machine, honest := join(t, membership.Options{}, mesh.gives(cart)), join(t, membership.Options{}, mesh.gives(discovery))
	key, csr := certtest.Request(t)
	issued, err := mesh.delegated().Sign(authority.Request{CSR: csr, ID: discovery, Lifetime: time.Minute})
	require.NoError(t, err)
	chain, err := authority.ParseCertificates(issued.ChainPEM)
	require.NoError(t, err)
	stolen := tls.Certificate{PrivateKey: key}
	for _, c := range append(chain, mesh.roots...) {
		stolen.Certificate = append(stolen.Certificate, c.Raw)
	}

	token, err := jointoken.New(mesh.roots...)
	require.NoError(t, err)
	for _, client := range []*tls.Config{
		machine.Client(membership.IsProgram(identity.Discovery)), membership.ByToken(token, identity.Discovery), membership.ByRoots(mesh.roots, identity.Discovery),
	} {
		_, _, ofServer := handshake(t, &tls.Config{Certificates: []tls.Certificate{stolen}}, client)
		require.ErrorContains(t, ofServer, "an authority that may sign those of machines alone")
	}
	_, ofClient, _ := handshake(t, honest.Server(tls.VerifyClientCertIfGiven), &tls.Config{Certificates: []tls.Certificate{stolen}, InsecureSkipVerify: true})
	require.ErrorContains(t, ofClient, "an authority that may sign those of machines alone")
}

func TestEachMeshVouchesOnlyForItself(t *testing.T) {
	t.Parallel()
	mesh, other := newMesh(t, "mesh.example"), newMesh(t, "other.example")
	mesh.others = []*identityv1.Federated{{TrustDomain: "other.example", Roots: other.active.RootsPEM()}}
	server := join(t, membership.Options{}, mesh.gives(discovery))
	mine := func(chain *membership.Membership) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{chain.Current().Certificate}, InsecureSkipVerify: true}
	}
	neighbour := join(t, membership.Options{}, other.gives(spiffeid.RequireFromString("spiffe://other.example/ns/shop/sa/cart")))
	_, ofClient, _ := handshake(t, server.Server(tls.RequireAndVerifyClientCert), mine(neighbour))
	require.NoError(t, ofClient)

	// The other mesh issues an identity of this mesh.
	lies := liar{other}
	_, ofClient, _ = handshake(t, server.Server(tls.RequireAndVerifyClientCert), lies.shows(t, cart))
	require.ErrorIs(t, ofClient, membership.ErrUntrusted)
	_, ofClient, _ = handshake(t, server.Server(tls.RequireAndVerifyClientCert), lies.shows(t, spiffeid.RequireFromString("spiffe://third.example/ns/a/sa/b")))
	require.ErrorContains(t, ofClient, "neither this mesh's (mesh.example) nor one that it trusts")

	// Its servers are none here.
	machine := join(t, membership.Options{}, mesh.gives(cart))
	theirs := lies.shows(t, spiffeid.RequireFromString("spiffe://other.example/pgmesh/discovery/x"))
	_, _, ofServer := handshake(t, theirs, machine.Client(membership.IsProgram(identity.Discovery)))
	require.ErrorIs(t, ofServer, membership.ErrWrongServer)
}

// liar signs what it should not.
type liar struct{ *mesh }

func (m liar) shows(t *testing.T, id spiffeid.ID) *tls.Config {
	t.Helper()
	key, csr := certtest.Request(t)
	issued, err := m.active.Sign(authority.Request{CSR: csr, ID: id, Lifetime: time.Minute})
	require.NoError(t, err)
	return &tls.Config{
		Certificates:       []tls.Certificate{{Certificate: [][]byte{issued.Certificate.Raw}, PrivateKey: key}},
		InsecureSkipVerify: true,
	}
}

func TestFirstConnectionTrustsThePinnedRoots(t *testing.T) {
	t.Parallel()
	mesh := newMesh(t, "mesh.example")
	old := mesh.active
	server := join(t, membership.Options{}, mesh.gives(discovery))
	token, err := jointoken.New(old.Certificate())
	require.NoError(t, err)
	_, ofClient, ofServer := handshake(t, server.Server(tls.VerifyClientCertIfGiven), membership.ByToken(token, identity.Discovery))
	require.NoError(t, errors.Join(ofClient, ofServer))

	_, _, ofServer = handshake(t, server.Server(tls.VerifyClientCertIfGiven), membership.ByToken(token, identity.MCPServer))
	require.ErrorIs(t, ofServer, membership.ErrWrongServer)

	mesh.rotate()
	server = join(t, membership.Options{}, mesh.gives(discovery))
	_, _, ofServer = handshake(t, server.Server(tls.VerifyClientCertIfGiven), membership.ByToken(token, identity.Discovery))
	require.ErrorIs(t, ofServer, membership.ErrNotPinned)

	// A root presented beside another chain vouches for nothing.
	forged := join(t, membership.Options{}, newMesh(t, "mesh.example").gives(discovery)).Current().Certificate
	forged.Certificate = append(forged.Certificate, old.Certificate().Raw)
	_, _, ofServer = handshake(t, &tls.Config{Certificates: []tls.Certificate{forged}}, membership.ByToken(token, identity.Discovery))
	require.ErrorIs(t, ofServer, membership.ErrUntrusted)
}

func TestWrongClockErrors(t *testing.T) {
	t.Parallel()
	outside := certtest.NewAuthority(t)
	roots, err := authority.ParseCertificates(outside.PEM)
	require.NoError(t, err)
	for want, change := range map[string]func(*x509.Certificate){
		"is valid from": func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(time.Hour)
			c.NotAfter = c.NotBefore.Add(time.Hour)
		},
		"was valid until": func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) },
	} {
		pair := outside.Issue(change, discovery.String()).Certificate(t)
		_, _, ofServer := handshake(t, &tls.Config{Certificates: []tls.Certificate{pair}}, membership.ByRoots(roots, identity.Discovery))
		require.ErrorIs(t, ofServer, membership.ErrClock)
		require.ErrorContains(t, ofServer, want)
	}
}

func TestCertificatesWithoutSPIFFEIDAreRefused(t *testing.T) {
	t.Parallel()
	outside := certtest.NewAuthority(t)
	trust, err := membership.ParseTrust(&identityv1.Trust{TrustDomain: "mesh.example", Roots: outside.PEM})
	require.NoError(t, err)
	for _, uris := range [][]string{nil, {cart.String(), discovery.String()}, {(&url.URL{Scheme: "https", Host: "mesh.example"}).String()}} {
		leaf := outside.Issue(nil, uris...).Certificate(t).Leaf
		_, err := trust.Verify([]*x509.Certificate{leaf}, x509.ExtKeyUsageClientAuth)
		require.Error(t, err, uris)
	}
	_, err = trust.Verify(nil, x509.ExtKeyUsageClientAuth)
	require.ErrorContains(t, err, "no certificate was shown")
}
