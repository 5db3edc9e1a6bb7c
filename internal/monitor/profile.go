package monitor

import (
	"net/http"
	"net/http/pprof"
)

const profilesPath = "/debug/pprof/"

// Profiles is the page for `go tool pprof`. It leaves out /cmdline, because flags may contain
// passwords.
func Profiles() Page {
	mux := http.NewServeMux()
	mux.HandleFunc(profilesPath, pprof.Index)
	mux.HandleFunc(profilesPath+"profile", pprof.Profile)
	mux.HandleFunc(profilesPath+"trace", pprof.Trace)
	return Page{profilesPath, "Has profiles of the program, for go tool pprof.", mux}
}
