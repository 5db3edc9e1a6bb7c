package monitor

import (
	"net/http"
	"net/http/pprof"

	"github.com/spf13/pflag"
)

// ProfilesFlag declares the flag by which a program has the page of profiles. It is off by default: a profile takes processor time
// from the program, and names what is in it.
func ProfilesFlag(f *pflag.FlagSet, on *bool) {
	f.BoolVar(on, "pprof", false, "serve "+profilesPath+" on --http, for go tool pprof: where the program's time and memory go")
}

const profilesPath = "/debug/pprof/"

// Profiles is the page by which `go tool pprof` asks a program where its time and its memory go. It has no /cmdline: passwords may be in it.
func Profiles() Page {
	mux := http.NewServeMux()
	mux.HandleFunc(profilesPath, pprof.Index)
	mux.HandleFunc(profilesPath+"profile", pprof.Profile)
	mux.HandleFunc(profilesPath+"trace", pprof.Trace)
	return Page{profilesPath, "Has profiles of the program, for go tool pprof.", mux}
}
