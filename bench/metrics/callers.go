package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/standardmetrics"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// callers can call as any workload: they hold the mesh's authority.
type callers struct {
	authority *authority.Authority
	files     stack.Files
}

const authorityLifetime = 24 * time.Hour

// newCallers makes an authority, with its files in a folder.
func newCallers(folder string) (*callers, error) {
	root, err := authority.NewRoot(trustDomain, authorityLifetime)
	if err != nil {
		return nil, err
	}
	key, err := root.KeyPEM()
	if err != nil {
		return nil, err
	}
	c := &callers{authority: root, files: stack.Files{
		Cert: filepath.Join(folder, "root.pem"), Key: filepath.Join(folder, "root.key"), Roots: filepath.Join(folder, "root.pem"),
	}}
	if err := os.WriteFile(c.files.Cert, root.RootsPEM(), 0o600); err != nil {
		return nil, err
	}
	return c, os.WriteFile(c.files.Key, key, 0o600)
}

// caller is the certificate of a workload that only calls, with what metrics call it.
func (c *callers) caller(number int) (*tls.Config, error) {
	key, err := authority.NewKey()
	if err != nil {
		return nil, err
	}
	request, err := authority.NewRequest(key)
	if err != nil {
		return nil, err
	}
	csr, err := authority.ParseRequest(request)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("caller-%d", number)
	issued, err := c.authority.Sign(authority.Request{
		CSR: csr, ID: spiffeid.RequireFromString(fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", trustDomain, callersNamespace, name)), Lifetime: time.Hour,
		Alias: standardmetrics.Workload{Service: name, Revision: "v1", App: name, Version: "v1"}.Encode(),
	})
	if err != nil {
		return nil, err
	}
	// The server has no name to be verified by, and nothing to gain from being somebody else.
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{issued.Certificate.Raw}, PrivateKey: key}}, InsecureSkipVerify: true,
	}, nil
}

const callersNamespace = "callers"
