package mesh

import "strings"

// ModuleFile begins where a module is a file of the machine.
const ModuleFile = "file://"

// IsFetched reports whether the extension is a module that agents fetch.
func (e *Extension) IsFetched() bool {
	return e.Spec.GetWasm() != nil && !strings.HasPrefix(ModuleURL(e.Spec.GetWasm().GetUrl()), ModuleFile)
}

// ModuleURL is where a module is, with the scheme that is meant where none is written: an image of a
// registry.
func ModuleURL(written string) string {
	for _, scheme := range []string{"oci", "https", "http", "file"} {
		if len(written) > len(scheme) && strings.EqualFold(written[:len(scheme)+1], scheme+":") {
			return scheme + written[len(scheme):]
		}
	}
	return "oci://" + written
}
