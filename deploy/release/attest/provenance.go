package attest

// Predicate is SLSA's provenance: how something was built, and from what.
type Predicate struct {
	BuildDefinition Definition `json:"buildDefinition"`
	RunDetails      Run        `json:"runDetails"`
}

// Definition is what anybody needs who would build it again.
type Definition struct {
	BuildType            string         `json:"buildType"`
	ExternalParameters   map[string]any `json:"externalParameters"`
	ResolvedDependencies []Material     `json:"resolvedDependencies"`
}

// Material is something that was built from.
type Material struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

// Run is who has built it. It has no time: two builds are to say the same.
type Run struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

// Page has the steps by which a release is built.
const Page = "https://github.com/pgmesh/pgmesh/blob/main/docs/releases.md"

// Built returns the provenance of what deploy/release built.
func Built(parameters map[string]any, materials []Material) Predicate {
	p := Predicate{BuildDefinition: Definition{Page, parameters, materials}}
	p.RunDetails.Builder.ID = Page
	return p
}
