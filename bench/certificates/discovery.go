package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	istio "istio.io/api/security/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/process"
)

// server is a process that issues certificates.
type server struct {
	pid   int
	stop  func()
	renew func(*files) error // on a new connection
}

// startDiscovery builds and starts a discovery that has everything it needs in files.
func startDiscovery(f *files) (*server, error) {
	program := f.path("discovery")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/pgmesh/pgmesh/discovery").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build discovery: %w: %s", err, out)
	}
	config := f.path("config")
	if err := os.Mkdir(config, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(config+"/mesh.yaml", []byte("# nothing"), 0o600); err != nil {
		return nil, err
	}
	xds, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	web, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "run", "--config-dir", config, "--listen", xds, "--http", web, "--log-level", "warn", "--max-renew-rate", "0",
		"--tls-cert", f.path("server.pem"), "--tls-key", f.path("server.key"), "--client-ca", f.path("roots.pem"),
		"--ca-cert", f.path("ca.pem"), "--ca-key", f.path("ca.key"), "--ca-roots", f.path("roots.pem"))
	cmd.Stderr = os.Stderr
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	s := &server{pid: p.Pid(), stop: func() { p.Stop(5 * time.Second) }, renew: func(f *files) error { return renew(f, xds) }}
	if err := ready(web, p.Done()); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// ready waits until discovery is ready.
func ready(web string, ended <-chan struct{}) error {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		response, err := http.Get("http://" + web + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("discovery has ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return errors.New("discovery does not become ready")
}

// clientConfig is the TLS configuration of a machine.
func (f *files) clientConfig(protocols ...string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: f.roots(), ServerName: "localhost", Certificates: []tls.Certificate{f.machine}, NextProtos: protocols}
}

func renew(f *files, address string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(f.clientConfig("h2"))))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := istio.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, &istio.IstioCertificateRequest{Csr: string(f.csr)})
	if err == nil && len(answer.GetCertChain()) != 3 {
		err = fmt.Errorf("there are %d parts in the chain, and not 3", len(answer.GetCertChain()))
	}
	return err
}
