package mcpv1

const (
	// BatchTypeURL is the type that ends batches.
	BatchTypeURL = "pgmesh.io/v1/Batch"
	// BatchName is the name of its one resource.
	BatchName = "batch"
	// StandingTypeURL is the type that tells how fresh is what a server serves.
	StandingTypeURL = "pgmesh.io/v1/Standing"
	// StandingName is the name of its one resource.
	StandingName = "standing"
	// Identifier begins the control plane identifier of a server that ends its batches.
	Identifier = "pgmesh"
)
