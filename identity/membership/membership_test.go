package membership_test

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

var cart = spiffeid.RequireFromString("spiffe://mesh.example/ns/shop/sa/cart")

// mesh issues certificates as a discovery does.
type mesh struct {
	t        testing.TB
	domain   string
	active   *authority.Authority
	roots    []*x509.Certificate
	others   []*identityv1.Federated
	lifetime time.Duration

	mu       sync.Mutex
	requests [][]byte // that were answered
}

func newMesh(t testing.TB, domain string) *mesh {
	t.Helper()
	m := &mesh{t: t, domain: domain, lifetime: time.Hour}
	m.rotate()
	return m
}

// rotate makes another root the active one.
func (m *mesh) rotate() {
	root, err := authority.NewRoot(m.domain, 10000*time.Hour)
	require.NoError(m.t, err)
	m.active, m.roots = root, append(m.roots, root.Certificate())
}

func (m *mesh) trust() *identityv1.Trust {
	pin := sha256.Sum256(m.active.Root().RawSubjectPublicKeyInfo)
	return &identityv1.Trust{TrustDomain: m.domain, Roots: authority.EncodeCertificates(m.roots...), Federated: m.others, ActiveRoot: pin[:]}
}

// gives returns an Ask that issues certificates for one identity.
func (m *mesh) gives(id spiffeid.ID) membership.Ask {
	return m.from(func() *authority.Authority { return m.active }, id)
}

func (m *mesh) from(by func() *authority.Authority, id spiffeid.ID) membership.Ask {
	return func(_ context.Context, text []byte) (membership.Granted, error) {
		csr, err := authority.ParseRequest(text)
		if err != nil {
			return membership.Granted{}, err
		}
		issued, err := by().Sign(authority.Request{CSR: csr, ID: id, Lifetime: m.lifetime, Enrolment: "e-1"})
		m.mu.Lock()
		m.requests = append(m.requests, text)
		m.mu.Unlock()
		return membership.Granted{Chain: issued.ChainPEM, Trust: m.trust()}, err
	}
}

// delegated returns an authority of the mesh below the active root.
func (m *mesh) delegated() *authority.Authority {
	key, csr := certtest.Request(m.t)
	issued, err := m.active.Delegate(csr, "eu-1", 12*time.Hour)
	require.NoError(m.t, err)
	pem, err := authority.EncodeKey(key)
	require.NoError(m.t, err)
	made, err := authority.Load(issued.ChainPEM, pem, authority.EncodeCertificates(m.roots...))
	require.NoError(m.t, err)
	return made
}

func join(t testing.TB, o membership.Options, ask membership.Ask) *membership.Membership {
	t.Helper()
	member, err := membership.Join(t.Context(), o, ask)
	require.NoError(t, err)
	return member
}

func refuses(context.Context, []byte) (membership.Granted, error) {
	return membership.Granted{}, errors.New("nobody is there")
}

func TestOpenLoadsWhatJoinStored(t *testing.T) {
	t.Parallel()
	o := membership.Options{Folder: filepath.Join(t.TempDir(), "state")}
	_, err := membership.Open(o)
	require.ErrorIs(t, err, membership.ErrNone)

	mesh := newMesh(t, "mesh.example")
	joined := join(t, o, mesh.gives(cart)).Current()
	opened, err := membership.Open(o)
	require.NoError(t, err)
	again := opened.Current()
	require.Equal(t, cart, again.ID)
	require.Equal(t, joined.ChainPEM(), again.ChainPEM())
	require.Equal(t, joined.Certificate.PrivateKey, again.Certificate.PrivateKey)
	require.Equal(t, "mesh.example", again.Trust.Domain)

	require.NoError(t, filepath.WalkDir(o.Folder, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
	_, err = os.Stat(filepath.Join(o.Folder, "joining-key.pem"))
	require.ErrorIs(t, err, fs.ErrNotExist, "it has done its duty")
}

func TestRetriedJoinUsesTheSameKey(t *testing.T) {
	t.Parallel()
	o := membership.Options{Folder: t.TempDir()}
	require.NoError(t, os.Chmod(o.Folder, 0o700))
	mesh := newMesh(t, "mesh.example")
	_, err := membership.Join(t.Context(), o, func(ctx context.Context, csr []byte) (membership.Granted, error) {
		_, err := mesh.gives(cart)(ctx, csr)
		require.NoError(t, err)
		return membership.Granted{}, errors.New("the connection was lost")
	})
	require.ErrorContains(t, err, "the connection was lost")
	_, err = membership.Open(o)
	require.ErrorIs(t, err, membership.ErrNone)

	join(t, o, mesh.gives(cart))
	require.Len(t, mesh.requests, 2)
	require.Equal(t, keyOf(t, mesh.requests[0]), keyOf(t, mesh.requests[1]))
}

func keyOf(t *testing.T, request []byte) [sha256.Size]byte {
	t.Helper()
	csr, err := authority.ParseRequest(request)
	require.NoError(t, err)
	return csr.KeyHash()
}

func TestUnusableCertificatesAreNotStored(t *testing.T) {
	t.Parallel()
	mesh, other := newMesh(t, "mesh.example"), newMesh(t, "other.example")
	is := func(id spiffeid.ID) error {
		if id != cart {
			return errors.New("this is the cart")
		}
		return nil
	}
	admin := spiffeid.RequireFromString("spiffe://mesh.example/ns/shop/sa/admin")
	server := spiffeid.RequireFromString("spiffe://mesh.example/pgmesh/discovery/eu-1")
	for want, c := range map[string]struct {
		is  func(spiffeid.ID) error
		ask membership.Ask
	}{
		"this is the cart":                {is, mesh.gives(admin)},
		"none of the roots":               {nil, changed(mesh.gives(cart), func(g *membership.Granted) { g.Trust.Roots = other.active.RootsPEM() })},
		"nothing to trust with it":        {nil, changed(mesh.gives(cart), func(g *membership.Granted) { g.Trust = nil })},
		"the roots of mesh.example":       {nil, changed(mesh.gives(cart), func(g *membership.Granted) { g.Trust.Roots = nil })},
		"no certificate in it":            {nil, changed(mesh.gives(cart), func(g *membership.Granted) { g.Chain = []byte("hello") })},
		"is of the trust domain":          {nil, changed(mesh.gives(cart), func(g *membership.Granted) { g.Trust.TrustDomain = "third.example" })},
		"key beside the certificate":      {nil, changed(mesh.gives(cart), func(g *membership.Granted) { g.Chain = mesh.active.ChainPEM() })},
		"sign those of machines alone":    {nil, mesh.from(mesh.delegated, server)},
		"nobody is there":                 {nil, refuses},
		"the trust domain \"Mesh Example": {nil, changed(mesh.gives(cart), func(g *membership.Granted) { g.Trust.TrustDomain = "Mesh Example" })},
	} {
		o := membership.Options{Folder: filepath.Join(t.TempDir(), "state"), Is: c.is}
		_, err := membership.Join(t.Context(), o, c.ask)
		require.ErrorContains(t, err, want)
		_, err = membership.Open(o)
		require.ErrorIs(t, err, membership.ErrNone)
	}
}

func changed(ask membership.Ask, change func(*membership.Granted)) membership.Ask {
	return func(ctx context.Context, csr []byte) (membership.Granted, error) {
		g, err := ask(ctx, csr)
		change(&g)
		return g, err
	}
}

func TestBrokenFolderErrors(t *testing.T) {
	t.Parallel()
	mesh := newMesh(t, "mesh.example")
	for want, harm := range map[string]func(folder string) error{
		"identity.pem: there is no private key in it, in PEM form and not encrypted; remove it, and join again": func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "identity.pem"), nil, 0o600)
		},
		"identity.pem: others than its owner may read or write it (-rw-r--r--): chmod 600": func(folder string) error {
			return os.Chmod(filepath.Join(folder, "identity.pem"), 0o644)
		},
		"trust.json cannot be read": func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "trust.json"), []byte("{"), 0o600)
		},
		"whom to trust is lost": func(folder string) error { return os.Remove(filepath.Join(folder, "trust.json")) },
		"others than its owner may change what is in it (-rwxrwxrwx), and a key is to be kept there: chmod 700": func(folder string) error {
			return os.Chmod(folder, 0o777)
		},
	} {
		o := membership.Options{Folder: filepath.Join(t.TempDir(), "state")}
		join(t, o, mesh.gives(cart))
		require.NoError(t, harm(o.Folder))
		_, err := membership.Open(o)
		require.ErrorContains(t, err, want)
	}
}

func TestLearnReplacesTheTrust(t *testing.T) {
	t.Parallel()
	mesh, other := newMesh(t, "mesh.example"), newMesh(t, "other.example")
	o := membership.Options{Folder: filepath.Join(t.TempDir(), "state")}
	member := join(t, o, mesh.gives(cart))
	first := member.Current()
	require.NoError(t, member.Learn(mesh.trust()))
	require.Same(t, first, member.Current(), "nothing is new")

	mesh.others = []*identityv1.Federated{{TrustDomain: "other.example", Roots: other.active.RootsPEM()}}
	require.NoError(t, member.Learn(mesh.trust()))
	<-first.Replaced()
	opened, err := membership.Open(o)
	require.NoError(t, err)
	for _, m := range []*membership.Membership{member, opened} {
		require.Len(t, m.Current().Trust.RootsOf(spiffeid.RequireTrustDomainFromString("other.example")), 1)
	}

	second := member.Current()
	require.ErrorIs(t, member.Learn(other.trust()), membership.ErrOtherMesh)
	require.ErrorContains(t, member.Learn(&identityv1.Trust{TrustDomain: "mesh.example"}), "the roots of mesh.example")
	require.Same(t, second, member.Current())

	mesh.others = append(mesh.others, &identityv1.Federated{TrustDomain: "third.example", Roots: []byte("broken")},
		&identityv1.Federated{TrustDomain: "mesh.example", Roots: other.active.RootsPEM()})
	require.NoError(t, member.Learn(mesh.trust()), "what is wrong with one mesh costs no other")
	trust := member.Current().Trust
	require.Len(t, trust.Unusable, 2)
	require.Len(t, trust.Federated, 1)
	require.Equal(t, mesh.roots, trust.Roots, "nobody else vouches for the mesh itself")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	o := membership.Options{Folder: filepath.Join(t.TempDir(), "state"), Metrics: membership.Metrics{Registerer: registry, NotAfter: "identity_not_after_seconds", Renewals: "identity_renewals_total"}}
	_, err := membership.Open(o)
	require.ErrorIs(t, err, membership.ErrNone)
	member := join(t, o, newMesh(t, "mesh.example").gives(cart))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Equal(t, "identity_not_after_seconds", families[0].GetName())
	require.InDelta(t, float64(member.Current().NotAfter().Unix()), families[0].GetMetric()[0].GetGauge().GetValue(), 0)
	count, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	require.Equal(t, 3, count)
}
