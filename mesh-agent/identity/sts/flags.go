package sts

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// Flags declares the flags of the exchange.
func (o *Options) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Upstream, "sts-upstream", "", "token endpoint, https://…, at which the agent exchanges tokens for this machine's applications, with the machine's certificate; empty for none")
	flags.StringVar(&o.Listen, "sts-listen", "127.0.0.1:15463", "address of the exchange of tokens, on loopback, with --sts-upstream")
	flags.StringVar(&o.SubjectTokenFile, "sts-subject-token-file", "", "file with the token to exchange for those who give none; it is read each time")
	flags.StringVar(&o.SubjectTokenType, "sts-subject-token-type", "urn:ietf:params:oauth:token-type:jwt", "what --sts-subject-token-file has")
	flags.StringVar(&o.ClientID, "sts-client-id", "", "client_id to tell the token endpoint (default: the SPIFFE id of the machine's certificate)")
	flags.StringVar(&o.RootsFile, "sts-roots", "", "PEM file with the authorities that vouch for the token endpoint (default: those of this machine)")
}

// Wanted reports whether there is a token endpoint, and reads the file with its roots. Other flags
// without an endpoint are an error.
func (o *Options) Wanted() (bool, error) {
	if o.Upstream == "" {
		if o.SubjectTokenFile != "" || o.RootsFile != "" || o.ClientID != "" {
			return false, errors.New("where are tokens exchanged? Say it with --sts-upstream https://…")
		}
		return false, nil
	}
	if o.RootsFile == "" {
		return true, nil
	}
	pem, err := os.ReadFile(o.RootsFile)
	if err != nil {
		return false, fmt.Errorf("--sts-roots: %w", err)
	}
	if o.Roots = x509.NewCertPool(); !o.Roots.AppendCertsFromPEM(pem) {
		return false, fmt.Errorf("--sts-roots %s: there is no certificate in it", o.RootsFile)
	}
	return true, nil
}
