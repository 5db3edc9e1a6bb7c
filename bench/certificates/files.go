package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/pgmesh/pgmesh/identity/authority"
)

// files are the files of a discovery with its own authority: a root, an intermediate authority that
// signs, and a server certificate.
type files struct {
	folder  string
	root    *authority.Authority
	machine tls.Certificate // of the machine that renews repeatedly
	csr     []byte
}

func newFiles(folder string) (*files, error) {
	root, err := authority.NewRoot("cluster.local", 24*time.Hour)
	if err != nil {
		return nil, err
	}
	f := &files{folder: folder, root: root}
	if err := f.writeAuthority(); err != nil {
		return nil, err
	}
	server, err := f.issue("spiffe://cluster.local/pgmesh/discovery/bench", "localhost")
	if err != nil {
		return nil, err
	}
	if err := f.writePair("server", server.chain, server.key); err != nil {
		return nil, err
	}
	m, err := f.issue("spiffe://cluster.local/ns/shop/sa/cart")
	if err != nil {
		return nil, err
	}
	f.csr = m.csr
	f.machine, err = tls.X509KeyPair(m.chain, m.key)
	return f, err
}

// path returns the path of a file.
func (f *files) path(name string) string { return filepath.Join(f.folder, name) }

func (f *files) roots() *x509.CertPool { return authority.Pool(f.root.Root()) }

func (f *files) writePair(name string, chain, key []byte) error {
	if err := os.WriteFile(f.path(name+".pem"), chain, 0o600); err != nil {
		return err
	}
	return os.WriteFile(f.path(name+".key"), key, 0o600)
}

// writeAuthority writes the intermediate authority that signs.
func (f *files) writeAuthority() error {
	key, err := authority.NewKey()
	if err != nil {
		return err
	}
	text, err := authority.NewRequest(key)
	if err != nil {
		return err
	}
	csr, err := authority.ParseRequest(text)
	if err != nil {
		return err
	}
	issued, err := f.root.Delegate(csr, "bench", 24*time.Hour)
	if err != nil {
		return err
	}
	encoded, err := authority.EncodeKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.path("roots.pem"), f.root.RootsPEM(), 0o600); err != nil {
		return err
	}
	return f.writePair("ca", issued.ChainPEM, encoded)
}

// pair is a certificate with its key and its request.
type pair struct{ chain, key, csr []byte }

func (f *files) issue(id string, hosts ...string) (*pair, error) {
	key, err := authority.NewKey()
	if err != nil {
		return nil, err
	}
	p := &pair{}
	if p.csr, err = authority.NewRequest(key); err != nil {
		return nil, err
	}
	csr, err := authority.ParseRequest(p.csr)
	if err != nil {
		return nil, err
	}
	if p.key, err = authority.EncodeKey(key); err != nil {
		return nil, err
	}
	signer := f.root
	if len(hosts) == 0 { // machines are signed by discovery's authority
		if signer, err = f.loadAuthority(); err != nil {
			return nil, err
		}
	}
	issued, err := signer.Sign(authority.Request{CSR: csr, ID: spiffeid.RequireFromString(id), Hosts: hosts, Lifetime: time.Hour})
	p.chain = issued.ChainPEM
	return p, err
}

func (f *files) loadAuthority() (*authority.Authority, error) { return loadAuthority(f.folder) }

func loadAuthority(folder string) (*authority.Authority, error) {
	var texts [3][]byte
	for i, name := range []string{"ca.pem", "ca.key", "roots.pem"} {
		var err error
		if texts[i], err = os.ReadFile(filepath.Join(folder, name)); err != nil {
			return nil, err
		}
	}
	return authority.Load(texts[0], texts[1], texts[2])
}
