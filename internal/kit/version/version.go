// Package version returns the version of the running program, and how programs tell it each other.
package version

import (
	"runtime/debug"
	"strings"
)

// packaged is the version of the package the program was installed from. The package build sets it
// with -ldflags -X.
var packaged string

// Of returns the program's version and the version of Go that compiled it. Without a package
// version it returns what the Go toolchain recorded: the module's version or the commit.
func Of() string {
	build, ok := debug.ReadBuildInfo()
	switch {
	case !ok && packaged == "":
		return "unknown"
	case !ok:
		return packaged
	case packaged != "":
		return packaged + " " + build.GoVersion
	default:
		return build.Main.Version + " " + build.GoVersion
	}
}

// Program returns the program's version alone.
func Program() string {
	program, _, _ := strings.Cut(Of(), " ")
	return program
}
