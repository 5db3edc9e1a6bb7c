package version

import (
	"runtime/debug"
	"strings"
)

// Build is what is known of how the program was made. What is not known is left empty.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Modified tells that files were changed since the commit.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go,omitempty"`
}

// OfBuild returns the version with the commit that the toolchain recorded.
func OfBuild() Build {
	b := Build{Version: Program()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Commit == "" {
		b.Commit = commitIn(info.Main.Version)
	}
	return b
}

// hashLength is how much of a commit's hash a version of a module has at its end.
const hashLength = 12

// commitIn returns the hash in a version that was made for a commit without a tag:
// v0.0.0-20260102150405-0123456789ab.
func commitIn(version string) string {
	version, _, _ = strings.Cut(version, "+")
	hash := version[strings.LastIndex(version, "-")+1:]
	if strings.Count(version, "-") < 2 || len(hash) != hashLength || strings.Trim(hash, "0123456789abcdef") != "" {
		return ""
	}
	return hash
}
