// Terraform-provider-pgmesh lets Terraform and OpenTofu change a mesh. They start it themselves.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/pgmesh/pgmesh/deploy/terraform/provider"
	"github.com/pgmesh/pgmesh/internal/kit/version"
)

// address is where Terraform's configurations find the provider, if they say pgmesh/pgmesh.
const address = "registry.terraform.io/pgmesh/pgmesh"

func main() {
	debug := flag.Bool("debug", false, "wait for a debugger, and print what Terraform has to be told")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(version.Program()), providerserver.ServeOpts{Address: address, Debug: *debug, ProtocolVersion: 6})
	if err != nil {
		fmt.Fprintln(os.Stderr, "terraform-provider-pgmesh:", err)
		os.Exit(1)
	}
}
