package monitor

import (
	"net/http"
	"net/http/pprof"

	"github.com/spf13/pflag"
)

// ProfilesFlag declares --pprof. It is off by default: a profile costs processor time and reveals the names
// of what it profiles.
func ProfilesFlag(f *pflag.FlagSet, on *bool) {
	f.BoolVar(on, "pprof", false, "serve "+profilesPath+" on --http, for go tool pprof: where the program's time and memory go")
}

const profilesPath = "/debug/pprof/"

// Profiles is the page for `go tool pprof`. It leaves out /cmdline, because flags may contain passwords.
func Profiles() Page {
	mux := http.NewServeMux()
	mux.HandleFunc(profilesPath, pprof.Index)
	mux.HandleFunc(profilesPath+"profile", pprof.Profile)
	mux.HandleFunc(profilesPath+"trace", pprof.Trace)
	return Page{profilesPath, "Has profiles of the program, for go tool pprof.", mux}
}
