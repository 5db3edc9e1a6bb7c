package jointoken

import (
	"time"

	"github.com/spf13/pflag"
)

// Port is the port on which machines join, unless discovery was told another.
const Port = "15012"

// DefaultLifetime is how long a join token is valid if nothing else is said.
const DefaultLifetime = time.Hour

// ServerFlag declares the flag of commands that make tokens for servers, which become members as
// programs.
func ServerFlag(f *pflag.FlagSet, program *string) {
	f.StringVar(program, "for", "", "make a join token for a server: discovery, or mcp-server, which is a relay")
}
