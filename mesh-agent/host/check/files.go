package check

import (
	"context"
	"os"
)

// Files checks that files can be read that the settings name. What cannot be read is as bad as the
// state says.
func Files(paths []string, bad State) Check {
	return func(context.Context) (all []Finding) {
		for _, path := range paths {
			if path == "" || path == "-" { // none, or standard input
				continue
			}
			file, err := os.Open(path)
			if err != nil {
				all = append(all, Finding{Part: "files", State: bad, Says: err.Error(), Do: "let the agent's account read it, and everybody above it enter its folders; or have the unit hand it over (LoadCredential=)"})
				continue
			}
			file.Close()
			all = append(all, ok("files", "%s can be read", path))
		}
		return all
	}
}
