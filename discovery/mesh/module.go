package mesh

import "strings"

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
