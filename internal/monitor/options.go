package monitor

import "github.com/spf13/pflag"

// Options say where a program serves its pages, which of them, and to whom.
type Options struct {
	Address  string
	Access   Access
	Profiles bool // Profiles is among the pages
}

// Flags declares the flags, with the address that the program has if none is given. Profiles are
// off by default: they cost processor time, and reveal the names of what they show.
func (o *Options) Flags(f *pflag.FlagSet, address string) {
	f.StringVar(&o.Address, "http", address, "address to serve /healthz, /readyz and /metrics on, and pages that /debug lists")
	f.StringVar(&o.Access.TokenFile, "http-token-file", "",
		"file with the token that lets in to the pages of --http from other machines; without it they are for this machine, but for /healthz, /readyz and /metrics")
	f.BoolVar(&o.Profiles, "pprof", false, "serve "+profilesPath+" on --http, for go tool pprof: where the program's time and memory go")
}
