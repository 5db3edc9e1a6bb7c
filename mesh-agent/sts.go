package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/sts"
)

// stsFlags configure the token exchange.
type stsFlags struct {
	options sts.Options
	roots   string
}

func (f *stsFlags) declare(flags *pflag.FlagSet) {
	o := &f.options
	flags.StringVar(&o.Upstream, "sts-upstream", "", "token endpoint, https://…, at which the agent exchanges tokens for this machine's applications, with the machine's certificate; empty for none")
	flags.StringVar(&o.Listen, "sts-listen", "127.0.0.1:15463", "address of the exchange of tokens, on loopback, with --sts-upstream")
	flags.StringVar(&o.SubjectTokenFile, "sts-subject-token-file", "", "file with the token to exchange for those who give none; it is read each time")
	flags.StringVar(&o.SubjectTokenType, "sts-subject-token-type", "urn:ietf:params:oauth:token-type:jwt", "what --sts-subject-token-file has")
	flags.StringVar(&o.ClientID, "sts-client-id", "", "client_id to tell the token endpoint (default: the SPIFFE id of the machine's certificate)")
	flags.StringVar(&f.roots, "sts-roots", "", "PEM file with the authorities that vouch for the token endpoint (default: those of this machine)")
}

// open returns nil if no endpoint is configured.
func (f *stsFlags) open(who *machine, log *slog.Logger, metrics prometheus.Registerer) (*exchanger, error) {
	o := f.options
	if o.Upstream == "" {
		if o.SubjectTokenFile != "" || f.roots != "" || o.ClientID != "" {
			return nil, errors.New("where are tokens exchanged? Say it with --sts-upstream https://…")
		}
		return nil, nil
	}
	o.Log, o.Metrics = log, metrics
	if f.roots != "" {
		pem, err := os.ReadFile(f.roots)
		if err != nil {
			return nil, fmt.Errorf("--sts-roots: %w", err)
		}
		if o.Roots = x509.NewCertPool(); !o.Roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--sts-roots %s: there is no certificate in it", f.roots)
		}
	}
	if who != nil {
		var err error
		if o.Certificate, err = who.certificate(log); err != nil {
			return nil, err
		}
		if o.ClientID == "" {
			o.ClientID = who.Workload.String()
		}
	}
	server, err := sts.Open(o)
	if err != nil {
		return nil, err
	}
	log.Info("exchanging tokens", "address", server.Address(), "upstream", o.Upstream)
	return &exchanger{server}, nil
}

// certificate returns a function that returns the machine's present certificate.
func (m *machine) certificate(log *slog.Logger) (func() *tls.Certificate, error) {
	if m.member != nil {
		return func() *tls.Certificate { return &m.member.Current().Certificate }, nil
	}
	pair, err := reload.Load(reload.Options{What: "certificate for the token endpoint", Log: log}, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		return &pair, err
	}, m.files.cert, m.files.key)
	if err != nil {
		return nil, err
	}
	return pair.Fresh, nil
}

// exchanger exchanges tokens; nil does nothing.
type exchanger struct{ *sts.Server }

func (e *exchanger) run(ctx context.Context) error {
	if e == nil {
		return nil
	}
	return e.Run(ctx)
}
