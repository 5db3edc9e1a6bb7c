// Package version tells which version of pgmesh a program is.
package version

import "runtime/debug"

// packaged is the version of the package that the program is from. Who makes the package sets it: -ldflags -X.
var packaged string

// Of is that of the running program, and of the Go that compiled it: the version of its package, or what the Go toolchain recorded, which is the
// version of the module or the commit.
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
