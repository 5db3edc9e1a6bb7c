package places

import (
	"crypto/x509"

	"github.com/spf13/pflag"
)

// Options say, as flags do, where something is fetched from, and whom it is believed of.
type Options struct {
	// Allowed are ranges of addresses that are asked although they are refused by default; Refused
	// are ranges that are not asked.
	Allowed, Refused []string
	// Authority is a file of further certificates to verify servers with, beside the system's; ""
	// for none.
	Authority string
}

// Flags declares the flags, which begin with a prefix, for what is fetched, such as "keys".
func (o *Options) Flags(f *pflag.FlagSet, what, prefix string) {
	f.StringSliceVar(&o.Allowed, prefix+allowFlag, nil,
		"ranges of addresses, as 127.0.0.0/8, that "+what+" may be fetched from though it is refused by default: loopback, link-local, multicast, and what clouds serve metadata at")
	f.StringSliceVar(&o.Refused, prefix+refuseFlag, nil, "further ranges of addresses that "+what+" may not be fetched from, as 10.0.0.0/8")
	f.StringVar(&o.Authority, prefix+authorityFlag, "", "PEM file of authorities that servers of "+what+" may have their certificates from, beside those that the system knows")
}

// Open returns the places of the options, and the authorities of their servers; nil for those of
// the system.
func (o *Options) Open(what, prefix string) (Places, *x509.CertPool, error) {
	from, err := New(what, prefix, o.Allowed, o.Refused)
	if err != nil {
		return Places{}, nil, err
	}
	roots, err := authorities(prefix+authorityFlag, o.Authority)
	return from, roots, err
}

// The ends of flags.
const (
	allowFlag     = "-allow-addresses"
	refuseFlag    = "-refuse-addresses"
	authorityFlag = "-ca"
)
