// Terraform-provider-pgmesh lets Terraform and OpenTofu change a mesh. They start it themselves.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/pgmesh/pgmesh/deploy/terraform/provider"
	"github.com/pgmesh/pgmesh/internal/kit/version"
)

// address is where Terraform's configurations find the provider, if they say pgmesh/pgmesh.
const address = "registry.terraform.io/pgmesh/pgmesh"

// garbage is how much more than what is in use may wait to be collected, in percent. The provider lives for one plan, most
// of whose work is to make values and drop them: this saves about a quarter of its CPU, and takes some 30 MB.
const garbage = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	debugged := flag.Bool("debug", false, "wait for a debugger, and print what Terraform has to be told")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(version.Program()), providerserver.ServeOpts{Address: address, Debug: *debugged, ProtocolVersion: 6})
	if err != nil {
		fmt.Fprintln(os.Stderr, "terraform-provider-pgmesh:", err)
		os.Exit(1)
	}
}
