package mcpv1

const (
	// BatchTypeURL is the type that ends batches.
	BatchTypeURL = "pgmesh.io/v1/Batch"
	// BatchName is the name of its one resource.
	BatchName = "batch"
	// Identifier begins the control plane identifier of a server that ends its batches.
	Identifier = "pgmesh"
)
