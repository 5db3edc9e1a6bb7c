package wasm

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/places"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/fetch"
)

// Options are what flags say of modules.
type Options struct {
	// MaxModule bounds one module, MaxModules and MaxBytes all that are kept.
	MaxModule  int64
	MaxModules int
	MaxBytes   int64
	// Keep is how long a module stays that nobody uses.
	Keep time.Duration
	// Wait is how long a listener waits for a module that Envoy has nothing for.
	Wait time.Duration
	// Insecure are registries and servers that need no valid certificate, and that may speak
	// plaintext.
	Insecure []string
	places.Options
}

// What is fetched, and how the flags on where from begin.
const (
	fetched = "Wasm modules"
	prefix  = "wasm"
)

// Defaults are right for most machines.
func Defaults() Options {
	return Options{MaxModule: 256 << 20, MaxModules: 100, MaxBytes: 1 << 30, Keep: 24 * time.Hour, Wait: 10 * time.Second}
}

// Flags declares the flags.
func (o *Options) Flags(f *pflag.FlagSet) {
	d := Defaults()
	f.Int64Var(&o.MaxModule, "wasm-max-module-bytes", d.MaxModule, "bytes that the module of a Wasm plugin may have")
	f.IntVar(&o.MaxModules, "wasm-max-modules", d.MaxModules, "modules of Wasm plugins that are kept on this machine")
	f.Int64Var(&o.MaxBytes, "wasm-max-bytes", d.MaxBytes, "bytes that all modules of Wasm plugins may have together")
	f.DurationVar(&o.Keep, "wasm-keep", d.Keep, "how long a module of a Wasm plugin is kept that nobody uses")
	f.DurationVar(&o.Wait, "wasm-wait", d.Wait, "how long a listener waits for the module of a Wasm plugin that is new to it; then traffic passes or is refused, as the plugin's failStrategy says")
	f.StringSliceVar(&o.Insecure, "wasm-insecure-registries", nil,
		"hosts, as registry.example:5000, whose certificates are not verified when Wasm modules are fetched, and which may be registries without TLS; * for all")
	o.Options.Flags(f, fetched, prefix)
}

func (o *Options) fetcher() (*fetch.Fetcher, error) {
	if o.MaxModule <= 0 || o.MaxModules <= 0 || o.MaxBytes <= 0 {
		return nil, errors.New("--wasm-max-module-bytes, --wasm-max-modules and --wasm-max-bytes have to be more than 0")
	}
	from, roots, err := o.Open(fetched, prefix)
	if err != nil {
		return nil, err
	}
	return fetch.New(fetch.Options{Client: from.Client(roots), Unverified: from.Unverified(), Insecure: o.Insecure, MaxSize: o.MaxModule}), nil
}
