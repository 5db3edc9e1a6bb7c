package registry

import "github.com/pgmesh/pgmesh/kinds"

// Secret is a secret that a registry has for gateways.
type Secret struct {
	// Resource is of the kind kinds.Secret. It names the service accounts whose gateways may have it.
	*kinds.Resource

	// Version changes with the secret. It is the same for all who read it, and says nothing of its values.
	Version string
}

// Lender is a registry that may have secrets for gateways.
type Lender interface {
	Registry
	// LendsSecrets reports whether the settings ask for them. If not, it gives none.
	LendsSecrets() bool
}
