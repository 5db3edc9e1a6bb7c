package attest

import (
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// ComponentsOf lists what a program was compiled from, as the compiler recorded it in the program.
func ComponentsOf(file, program, version string, at time.Time) (*cyclonedx.BOM, error) {
	made, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	list := listOf(program, version, at)
	all := []cyclonedx.Component{{
		BOMRef: "go", Type: cyclonedx.ComponentTypeLibrary, Name: "stdlib", Version: strings.TrimPrefix(made.GoVersion, "go"),
		PackageURL: "pkg:golang/stdlib@" + strings.TrimPrefix(made.GoVersion, "go"),
	}}
	for _, module := range made.Deps {
		all = append(all, componentOf(module))
	}
	list.Components = &all
	identify(list)
	return list, nil
}

// With returns a list that has further components.
func With(list *cyclonedx.BOM, further ...cyclonedx.Component) *cyclonedx.BOM {
	longer := *list
	all := append(append([]cyclonedx.Component(nil), *list.Components...), further...)
	longer.Components = &all
	identify(&longer)
	return &longer
}

func listOf(program, version string, at time.Time) *cyclonedx.BOM {
	list := cyclonedx.NewBOM()
	list.Metadata = &cyclonedx.Metadata{
		Timestamp: at.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: program, Type: cyclonedx.ComponentTypeApplication, Name: program, Version: version,
			PackageURL: "pkg:golang/github.com/pgmesh/pgmesh@" + version + "#" + program,
			Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		},
	}
	return list
}

func componentOf(module *debug.Module) cyclonedx.Component {
	if module.Replace != nil && !strings.HasPrefix(module.Replace.Path, ".") { // what is in a folder of the same commit keeps its name
		module = module.Replace
	}
	at := "pkg:golang/" + module.Path + "@" + module.Version
	return cyclonedx.Component{BOMRef: at, Type: cyclonedx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: at}
}

// identify numbers a list by what is in it, where others draw a number: equal lists are to be equal.
func identify(list *cyclonedx.BOM) {
	list.SerialNumber = ""
	sum := sha256.New()
	_ = cyclonedx.NewBOMEncoder(sum, cyclonedx.BOMFileFormatJSON).Encode(list) // a hash takes everything
	b := sum.Sum(nil)
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80 // a UUID of the version that is for such
	list.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Alone returns a list of a component that was compiled by others.
func Alone(c cyclonedx.Component, at time.Time) *cyclonedx.BOM {
	list := cyclonedx.NewBOM()
	list.Metadata = &cyclonedx.Metadata{Timestamp: at.UTC().Format(time.RFC3339), Component: &c}
	identify(list)
	return list
}
